"""Questions and claims in free wording over tables that no benchmark of the sample has, with the answers worked out.

Written before the reasoner was run on them, in as many turns of phrase as came to mind, to see whether it reads English
or only the forms of a benchmark.
"""

from __future__ import annotations

from evidence_assets.reasoning.tables import TableView

CITIES = TableView.of(
    "cities", "", ["City", "Country", "Population (million)", "Founded", "Elevation (m)", "Metro"],
    [["Lyon", "France", "0.52", "43", "173", "yes"], ["Turin", "Italy", "0.85", "28", "239", "yes"],
     ["Quito", "Ecuador", "1.98", "1534", "2850", "yes"], ["Lima", "Peru", "9.67", "1535", "154", "yes"],
     ["La Paz", "Bolivia", "0.81", "1548", "3640", "no"], ["Marseille", "France", "0.87", "600", "28", "yes"]],
)  # fmt: skip
DOGS = TableView.of(
    "dogs", "", ["Breed", "Group", "Weight (kg)", "Height (cm)", "Life expectancy (years)", "Origin"],
    [["Beagle", "hound", "11", "38", "13", "England"], ["Great Dane", "working", "60", "78", "8", "Germany"],
     ["Pug", "toy", "7", "30", "14", "China"], ["Greyhound", "hound", "33", "73", "12", "England"],
     ["Boxer", "working", "30", "59", "11", "Germany"], ["Chihuahua", "toy", "2", "20", "16", "Mexico"]],
)  # fmt: skip
SALES = TableView.of(
    "sales", "", ["Year", "Units sold", "Price (EUR)", "Returns (%)"],
    [["2018", "120", "40", "5.0"], ["2019", "150", "38", "4.5"], ["2020", "90", "45", "4.5"],
     ["2021", "180", "36", "3.0"], ["2022", "210", "35", "2.5"]],
)  # fmt: skip

QUESTIONS: tuple[tuple[TableView, str, tuple[str, ...], str], ...] = (
    (CITIES, "Which city lies highest?", ("Quito", "La Paz", "Lima", "Turin"), "La Paz"),
    (CITIES, "What is the second most populous city?", ("Lima", "Quito", "Marseille", "Turin"), "Quito"),
    (CITIES, "How much higher is La Paz than Quito?", ("790 m", "3640 m", "6490 m", "154 m"), "790 m"),
    (CITIES, "How many of the cities are in France?", ("1", "2", "3", "4"), "2"),
    (CITIES, "Which is the oldest city?", ("Lyon", "Turin", "Lima", "Quito"), "Turin"),
    (CITIES, "Which city was founded before Lyon?", ("Marseille", "Turin", "Lima", "La Paz"), "Turin"),
    (CITIES, "How many cities were founded after 1500?", ("two", "three", "four", "five"), "three"),
    (CITIES, "In which country is Quito?", ("Peru", "Ecuador", "Bolivia", "Italy"), "Ecuador"),
    (CITIES, "What is the total population of Lyon and Marseille?", ("1.39", "0.35", "0.87", "1.85"), "1.39"),
    (CITIES, "Which city has no metro?", ("Lyon", "La Paz", "Quito", "Lima"), "La Paz"),
    (CITIES, "Which of Turin and Marseille has fewer inhabitants?", ("Turin", "Marseille"), "Turin"),
    (CITIES, "What is the elevation of Marseille?", ("28", "173", "239", "154"), "28"),
    (CITIES, "Roughly how many times as populous as Lyon is Lima?", ("about 9", "about 19", "about 29"), "about 19"),
    (CITIES, "Which cities lie above 1000 m?", ("Lyon", "Quito", "Turin", "Marseille"), "Quito"),
    (DOGS, "What is the heaviest breed?", ("Boxer", "Great Dane", "Greyhound", "Pug"), "Great Dane"),
    (DOGS, "Which dog is shorter than the Pug?", ("Beagle", "Chihuahua", "Boxer", "Great Dane"), "Chihuahua"),
    (DOGS, "Which breed has the longest life expectancy?", ("Pug", "Chihuahua", "Beagle", "Boxer"), "Chihuahua"),
    (DOGS, "What is the average weight of the working breeds?", ("30", "45", "60", "90"), "45"),
    (DOGS, "How many hounds are there?", ("1", "2", "3", "4"), "2"),
    (DOGS, "By how many kilograms does the Boxer outweigh the Beagle?", ("19", "41", "11", "30"), "19"),
    (DOGS, "Which working dog is lighter?", ("Great Dane", "Boxer"), "Boxer"),
    (DOGS, "Which is the third heaviest?", ("Boxer", "Greyhound", "Beagle", "Great Dane"), "Boxer"),
    (DOGS, "What is the ratio of the Great Dane's weight to that of the Boxer?", ("2", "3", "0.5", "30"), "2"),
    (DOGS, "How many breeds weigh less than 12 kg?", ("2", "3", "4", "5"), "3"),
    (DOGS, "Where does the Pug come from?", ("China", "Mexico", "England", "Germany"), "China"),
    (SALES, "In which year were the fewest units sold?", ("2018", "2019", "2020", "2022"), "2020"),
    (SALES, "What happens to the units sold when the price rises?",
     ("they rise throughout", "they fall throughout", "they first rise and then fall"), "they fall throughout"),
    (SALES, "How many units were sold altogether?", ("750", "660", "570", "210"), "750"),
    (SALES, "What was the price in 2021?", ("36", "38", "45", "35"), "36"),
    (SALES, "How many more units were sold in 2022 than in 2018?", ("90", "120", "330", "60"), "90"),
    (SALES, "In how many years did the price exceed 37?", ("2", "3", "4", "5"), "3"),
    (SALES, "What was the maximum price?", ("45", "40", "36", "35"), "45"),
)  # fmt: skip

S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
CLAIMS: tuple[tuple[TableView, str, str], ...] = (
    (CITIES, "La Paz is the highest city.", S), (CITIES, "Lima is the highest of the cities.", R),
    (CITIES, "Quito is higher than Lima.", S), (CITIES, "Lyon lies higher than Turin.", R),
    (CITIES, "Lima has a larger population than Quito.", S), (CITIES, "Lyon is more populous than Turin.", R),
    (CITIES, "Lyon is older than Marseille.", S), (CITIES, "Quito is older than Turin.", R),
    (CITIES, "Turin is in Italy.", S), (CITIES, "Turin is in France.", R),
    (CITIES, "La Paz does not have a metro.", S), (CITIES, "Every city has a metro.", R),
    (CITIES, "Two of the cities are in France.", S), (CITIES, "Three cities are in France.", R),
    (CITIES, "The elevation of Quito is 2850 m.", S), (CITIES, "The elevation of Quito is not 2850 m.", R),
    (CITIES, "Lyon has a warmer climate than Turin.", N), (CITIES, "Lima exports more copper than Quito.", N),
    (CITIES, "The mayor of Lyon was elected in 2020.", N), (CITIES, "Berlin has a population of 0.85 million.", N),
    (DOGS, "The Great Dane weighs twice as much as the Boxer.", S),
    (DOGS, "The Boxer weighs twice as much as the Beagle.", R),
    (DOGS, "The Pug and the Chihuahua belong to the same group.", S),
    (DOGS, "The Beagle and the Pug belong to the same group.", R),
    (DOGS, "The Greyhound is 35 cm taller than the Beagle.", S), (DOGS, "The Beagle is 4 kg lighter than the Pug.", R),
    (DOGS, "No breed is heavier than the Great Dane.", S), (DOGS, "No dog lives longer than the Pug.", R),
    (DOGS, "The Chihuahua is the lightest breed.", S), (DOGS, "The Pug is the second lightest breed.", S),
    (DOGS, "The Greyhound is the second heaviest breed.", S), (DOGS, "The Boxer weighs more than 40 kg.", R),
    (DOGS, "All toy breeds weigh less than 10 kg.", S), (DOGS, "The Pug comes from Mexico.", R),
    (DOGS, "The Boxer barks louder than the Pug.", N), (DOGS, "Beagles are easier to train than Pugs.", N),
    (DOGS, "At least three breeds weigh more than 20 kg.", S), (DOGS, "The Dalmatian weighs 30 kg.", N),
    (SALES, "More units were sold in 2022 than in 2021.", S), (SALES, "The price was higher in 2021 than in 2019.", R),
    (SALES, "The fewer units are sold, the higher the price.", S),
    (SALES, "As the price rises, the units sold fall.", S), (SALES, "Returns grow as the units sold grow.", R),
    (SALES, "In total 750 units were sold.", S), (SALES, "The price was highest in 2020.", S),
    (SALES, "The price was lowest in 2018.", R), (SALES, "Returns were 4.5 % in 2019.", S),
    (SALES, "Profits doubled in 2021.", N),
)  # fmt: skip

PLANTS = TableView.of(
    "plants", "", ["Plant", "Family", "Height (m)", "Flowering month", "Petals", "Edible"],
    [["Sunflower", "daisy", "3.0", "July", "34", "yes"], ["Foxglove", "plantain", "1.5", "June", "5", "no"],
     ["Chicory", "daisy", "1.2", "July", "21", "yes"], ["Snowdrop", "amaryllis", "0.15", "January", "6", "no"],
     ["Daffodil", "amaryllis", "0.45", "March", "6", "no"]],
)  # fmt: skip
BRIDGES = TableView.of(
    "bridges", "", ["Name", "River", "Built", "Span (m)", "Cost (million EUR)", "Engineer"],
    [["Old Arch", "Ebro", "1720", "35", "2", "Garcia"], ["Iron Gate", "Danube", "1890", "120", "9", "Weiss"],
     ["Sky Path", "Ebro", "1999", "310", "84", "Lopez"], ["North Link", "Oder", "2008", "260", "61", "Nowak"]],
)  # fmt: skip
# Written after the reasoner had been mended on the sets above: the measure of wording that it was not mended on. On its
# first run 9 of 14 questions and 15 of 20 claims were right, and 8 of the 10 others were left open.
UNSEEN_QUESTIONS: tuple[tuple[TableView, str, tuple[str, ...], str], ...] = (
    (PLANTS, "Which plant grows tallest?", ("Foxglove", "Sunflower", "Chicory", "Snowdrop"), "Sunflower"),
    (PLANTS, "When does the snowdrop flower?", ("January", "March", "June", "July"), "January"),
    (PLANTS, "How many plants bloom in July?", ("1", "2", "3", "4"), "2"),
    (PLANTS, "How many of these plants can be eaten?", ("1", "2", "3", "5"), "2"),
    (PLANTS, "What's the gap in height between sunflower and foxglove?", ("1.5 m", "4.5 m", "2 m"), "1.5 m"),
    (PLANTS, "Name a member of the daisy family with fewer than 30 petals.", ("Sunflower", "Chicory"), "Chicory"),
    (PLANTS, "Which one has the same number of petals as the daffodil?", ("Snowdrop", "Chicory", "Foxglove"), "Snowdrop"),
    (BRIDGES, "Which bridge is newest?", ("Old Arch", "Iron Gate", "Sky Path", "North Link"), "North Link"),
    (BRIDGES, "Who designed the most expensive bridge?", ("Garcia", "Weiss", "Lopez", "Nowak"), "Lopez"),
    (BRIDGES, "How many years passed between the building of Old Arch and Iron Gate?", ("170", "279", "118"), "170"),
    (BRIDGES, "What did all the bridges cost together?", ("156", "84", "147", "93"), "156"),
    (BRIDGES, "Which bridge over the Ebro is older?", ("Old Arch", "Sky Path"), "Old Arch"),
    (BRIDGES, "Which bridges span at least 200 metres?", ("Old Arch", "Iron Gate", "North Link"), "North Link"),
    (BRIDGES, "How often does the span of Old Arch go into that of Sky Path, roughly?", ("9", "3", "35"), "9"),
)  # fmt: skip
UNSEEN_CLAIMS: tuple[tuple[TableView, str, str], ...] = (
    (PLANTS, "The sunflower outgrows every other plant in the table.", S),
    (PLANTS, "Chicory is shorter than foxglove.", S), (PLANTS, "Foxglove is safe to eat.", R),
    (PLANTS, "Snowdrop and daffodil have equally many petals.", S), (PLANTS, "The daffodil flowers in April.", R),
    (PLANTS, "Only one plant is taller than 2 m.", S), (PLANTS, "Chicory contains more caffeine than foxglove.", N),
    (PLANTS, "Foxglove needs less water than chicory.", N), (PLANTS, "The tulip has six petals.", N),
    (PLANTS, "None of the plants has more than 40 petals.", S),
    (BRIDGES, "Sky Path was the most expensive bridge to build.", S),
    (BRIDGES, "North Link was built nine years after Sky Path.", S), (BRIDGES, "Old Arch crosses the Danube.", R),
    (BRIDGES, "Iron Gate was built earlier than Old Arch.", R), (BRIDGES, "The average span exceeds 200 m.", R),
    (BRIDGES, "Two bridges cross the Ebro.", S), (BRIDGES, "Weiss was the engineer of Iron Gate.", S),
    (BRIDGES, "Sky Path carries more traffic than North Link.", N), (BRIDGES, "Newer bridges cost more.", R),
    (BRIDGES, "Sky Path cost 23 million more than North Link.", S),
)  # fmt: skip

# One turn of phrase each: what is left out, ranks, ranges, shares, "only", two clauses, "not as … as", steps of a series.
TURNS_OF_QUESTIONS: tuple[tuple[TableView, str, tuple[str, ...], str], ...] = (
    (CITIES, "Apart from Lima, which city is most populous?", ("Lima", "Quito", "Turin"), "Quito"),
    (DOGS, "Which dog ranks third in height?", ("Boxer", "Greyhound", "Beagle"), "Boxer"),
    (SALES, "What is the difference between the highest and the lowest price?", ("10", "35", "7"), "10"),
    (BRIDGES, "Which bridge was built between 1950 and 2000?", ("Sky Path", "North Link", "Iron Gate"), "Sky Path"),
    (DOGS, "Which breed comes last in weight?", ("Chihuahua", "Pug", "Beagle"), "Chihuahua"),
    (DOGS, "What is the second-lightest dog?", ("Chihuahua", "Pug", "Beagle"), "Pug"),
    (DOGS, "Which is the longest-lived breed?", ("Chihuahua", "Pug", "Beagle"), "Chihuahua"),
    (CITIES, "How many people live in Lyon and Turin combined, in millions?", ("1.37", "0.33", "0.85"), "1.37"),
    (BRIDGES, "How many years lie between the openings of Sky Path and North Link?", ("9", "109", "50"), "9"),
    (BRIDGES, "How often does the span of Old Arch go into that of Sky Path, roughly?", ("9", "3", "35"), "9"),
)  # fmt: skip
TURNS_OF_CLAIMS: tuple[tuple[TableView, str, str], ...] = (
    (CITIES, "Only La Paz has no metro.", S), (CITIES, "Only Lyon is in France.", R),
    (CITIES, "Most of the cities have a metro.", S),
    (CITIES, "A majority of the cities lies above 1000 m.", R),
    (CITIES, "La Paz is higher than Quito but less populous than Lima.", S),
    (CITIES, "La Paz is higher than Quito and more populous than Lima.", R),
    (CITIES, "Lyon is in France and Turin is in Peru.", R), (DOGS, "The Pug is not as heavy as the Beagle.", S),
    (DOGS, "The Beagle is not as heavy as the Pug.", R), (DOGS, "The Greyhound is no heavier than the Great Dane.", S),
    (DOGS, "The Great Dane is no heavier than the Pug.", R),
    (DOGS, "The average weight of the working breeds exceeds 40 kg.", S),
    (BRIDGES, "Sky Path outstrips Iron Gate in span.", S), (DOGS, "The Beagle trails the Boxer in height.", S),
    (CITIES, "Quito's population is below that of Lima.", S), (CITIES, "It is false that Lima is the highest city.", S),
    (PLANTS, "The sunflower is more than twice as tall as chicory.", S), (CITIES, "Lima leads in population.", S),
     (CITIES, "Lyon comes last in population.", S),
    (BRIDGES, "North Link ranks second in span.", S),
    (DOGS, "Nobody outlives the Chihuahua.", S),
    (BRIDGES, "Neither Sky Path nor North Link was built before 1990.", S),
    (BRIDGES, "Sky Path was the most expensive bridge to build.", S), (BRIDGES, "Two bridges cross the Ebro.", S),
)  # fmt: skip

HUTS = TableView.of(
    "huts", "", ["Hut", "Canton", "Altitude (m)", "Beds", "Opened", "Warden", "Shower"],
    [["Monte Rosa", "Valais", "2883", "120", "1894", "Imhof", "yes"], ["Gleckstein", "Bern", "2317", "80", "1880", "Roth", "no"],
     ["Tierbergli", "Bern", "2795", "70", "1905", "Hess", "no"], ["Albert Heim", "Uri", "2543", "84", "1918", "Furrer", "yes"],
     ["Salbit", "Uri", "2105", "52", "1931", "Walker", "yes"]],
)  # fmt: skip
FERRIES = TableView.of(
    "ferries", "", ["Ship", "Company", "Crossing time (min)", "Distance (km)", "Fare (EUR)", "Passengers", "Destination"],
    [["Heron", "Nordline", "55", "22", "14", "400", "Skagen"], ["Gannet", "Nordline", "240", "130", "48", "900", "Bergen"],
     ["Petrel", "Baltika", "95", "41", "21", "650", "Visby"], ["Tern", "Baltika", "180", "98", "39", "650", "Riga"]],
)  # fmt: skip
MUSEUM = TableView.of(
    "museum", "", ["Year", "Visitors (thousand)", "Ticket (EUR)", "Exhibitions", "Staff"],
    [["2016", "310", "9", "4", "41"], ["2017", "335", "9", "5", "44"], ["2018", "362", "10", "6", "44"],
     ["2019", "401", "10", "8", "52"], ["2020", "118", "8", "2", "39"]],
)  # fmt: skip
# Written after the vocabulary had been widened for the second time, in one go and without looking anything up in it, and
# not run before that vocabulary was finished. On the first run 17 of 25 questions and 31 of 40 claims were right, 3 were
# wrong and the other 14 left open. What could be mended in general was mended afterwards: 21 and 37.
BLIND_QUESTIONS: tuple[tuple[TableView, str, tuple[str, ...], str], ...] = (
    (HUTS, "At which hut do you sleep nearest to the sky?", ("Salbit", "Monte Rosa", "Tierbergli"), "Monte Rosa"),
    (HUTS, "Which hut has room for the fewest guests?", ("Salbit", "Tierbergli", "Gleckstein"), "Salbit"),
    (HUTS, "Which of the huts welcomed guests first?", ("Monte Rosa", "Gleckstein", "Salbit"), "Gleckstein"),
    (HUTS, "How many huts in Bern are listed?", ("1", "2", "3"), "2"),
    (HUTS, "Who looks after the Tierbergli hut?", ("Roth", "Hess", "Imhof"), "Hess"),
    (HUTS, "How many more beds does Monte Rosa offer than Gleckstein?", ("40", "50", "36"), "40"),
    (HUTS, "In which canton would I find Albert Heim?", ("Bern", "Uri", "Valais"), "Uri"),
    (HUTS, "How many of the huts are without a shower?", ("2", "3", "4"), "2"),
    (HUTS, "Leaving out Monte Rosa, which hut is the highest?", ("Tierbergli", "Albert Heim", "Gleckstein"), "Tierbergli"),
    (HUTS, "Which hut opened between 1900 and 1910?", ("Salbit", "Tierbergli", "Gleckstein"), "Tierbergli"),
    (FERRIES, "Which ship takes the longest to get across?", ("Gannet", "Tern", "Heron"), "Gannet"),
    (FERRIES, "What do you pay for a trip on the Petrel?", ("14", "21", "39"), "21"),
    (FERRIES, "Which ferry is the second cheapest?", ("Heron", "Petrel", "Tern"), "Petrel"),
    (FERRIES, "Which ship carries as many passengers as the Tern?", ("Petrel", "Gannet", "Heron"), "Petrel"),
    (FERRIES, "How much longer is the crossing on the Gannet than on the Tern?", ("60", "145", "85"), "60"),
    (FERRIES, "What is the mean fare of the Baltika ships?", ("30", "31", "21"), "30"),
    (FERRIES, "How many ships ask more than 20 euros?", ("2", "3", "4"), "3"),
    (FERRIES, "Where does the Heron sail to?", ("Riga", "Skagen", "Visby"), "Skagen"),
    (FERRIES, "By what factor is the Gannet's passenger capacity greater than the Heron's?", ("2.25", "1.38", "500"), "2.25"),
    (FERRIES, "How far apart are the dearest and the cheapest fare?", ("34", "48", "27"), "34"),
    (MUSEUM, "When did the museum see the most visitors?", ("2018", "2019", "2016"), "2019"),
    (MUSEUM, "In how many years were more than five exhibitions shown?", ("2", "3", "4"), "2"),
    (MUSEUM, "How many exhibitions were put on over the whole period?", ("25", "21", "8"), "25"),
    (MUSEUM, "What did a ticket cost in 2018?", ("8", "9", "10"), "10"),
    (MUSEUM, "By how much did the number of visitors drop from 2019 to 2020?", ("283", "39", "118"), "283"),
)  # fmt: skip
BLIND_CLAIMS: tuple[tuple[TableView, str, str], ...] = (
    (HUTS, "No hut lies higher than Monte Rosa.", S), (HUTS, "Salbit is the oldest of the huts.", R),
    (HUTS, "Gleckstein has ten more beds than Tierbergli.", S), (HUTS, "Tierbergli sits higher up than Albert Heim.", S),
    (HUTS, "Only Monte Rosa is in Valais.", S), (HUTS, "Only Salbit is in Uri.", R),
    (HUTS, "Most of the huts have a shower.", S), (HUTS, "There is no shower at Gleckstein.", S),
    (HUTS, "Albert Heim has 84 beds and lies in Uri.", S), (HUTS, "Albert Heim has 84 beds but lies in Bern.", R),
    (HUTS, "Salbit opened thirteen years after Albert Heim.", S), (HUTS, "Imhof is the warden of Salbit.", R),
    (HUTS, "Every hut has at least 50 beds.", S), (HUTS, "The food at Salbit is better than at Gleckstein.", N),
    (HUTS, "Monte Rosa was rebuilt after a storm.", N), (HUTS, "Gleckstein is not as high as Tierbergli.", S),
    (FERRIES, "The Heron makes the shortest crossing.", S), (FERRIES, "A trip on the Tern is dearer than one on the Gannet.", R),
    (FERRIES, "Both Baltika ships take 650 passengers.", S), (FERRIES, "The Petrel and the Tern belong to the same company.", S),
    (FERRIES, "The Gannet carries fewer people than the Heron.", R), (FERRIES, "All ships belong to Nordline.", R),
    (FERRIES, "The Gannet covers more than five times the distance of the Heron.", S),
    (FERRIES, "The captain of the Tern comes from Riga.", N), (FERRIES, "The Heron burns less fuel than the Petrel.", N),
    (FERRIES, "Two of the four ships cost less than 25 EUR.", S), (FERRIES, "The average crossing takes over three hours.", R),
    (FERRIES, "The Gannet costs exactly twice as much as the Petrel.", R), (FERRIES, "The Petrel sails to Riga.", R),
    (MUSEUM, "Visitor numbers went up every year until 2019.", S), (MUSEUM, "2020 was the worst year for visitors.", S),
    (MUSEUM, "A ticket was cheaper in 2020 than in any other year.", S), (MUSEUM, "The museum had 50 employees in 2019.", R),
    (MUSEUM, "In 2017 and 2018 the staff was equally large.", S), (MUSEUM, "More exhibitions were shown in 2016 than in 2018.", R),
    (MUSEUM, "The museum was closed on Mondays.", N), (MUSEUM, "The more exhibitions were shown, the more visitors came.", S),
    (MUSEUM, "Ticket prices never exceeded 10 EUR.", S), (MUSEUM, "The number of visitors doubled between 2016 and 2019.", R),
    (MUSEUM, "Altogether, more than 1500 thousand visitors came.", S),
)  # fmt: skip
