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
