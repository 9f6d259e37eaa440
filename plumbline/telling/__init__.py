"""What findings say, whoever shows it: numbers in words, and the document that console, pages and notebook render."""
