"""Files of strangers, bounded before they are parsed: each format has one reader. All that is written has one writer."""
