"""Files of strangers, bounded before they are parsed. Each format has one reader."""
