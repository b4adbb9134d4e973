"""The ledger of a company: its chart and posting rules, entries, and the reports made of lines."""
