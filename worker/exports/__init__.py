"""Tables as files: CSV and XLSX, written row by row in a child process, never held whole."""
