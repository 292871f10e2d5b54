"""What people look at: evidence cards (HTML) and plots. Text from documents and models is data and is escaped."""
