# Reads #cloud-config line by line: hostname and password, and runcmd as a list
# of plain strings. Everything else is passed over; this is no YAML parser.
# Leaves one file for each key that is there in the folder `out`.

function scalar(text) {
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	if (text ~ /^".*"$/) {
		text = substr(text, 2, length(text) - 2)
		gsub(/\\"/, "\"", text)
		gsub(/\\\\/, "\\", text)
	} else if (text ~ /^'.*'$/) {
		text = substr(text, 2, length(text) - 2)
		gsub(/''/, "'", text)
	} else {
		sub(/[ \t]+#.*$/, "", text)
	}
	return text
}

{ sub(/\r$/, "") }

# A key in the first column ends the list.
/^[^ \t#-]/ { in_runcmd = 0 }

/^(hostname|password):/ {
	key = $0
	sub(/:.*/, "", key)
	sub(/^[a-z]+:/, "")
	print scalar($0) > (out "/" key)
}

/^runcmd:/ { in_runcmd = 1 }

# An item that starts with [, | or > is not a plain string.
in_runcmd && /^[ \t]*-[ \t]+[^[|> \t]/ {
	sub(/^[ \t]*-[ \t]+/, "")
	print scalar($0) > (out "/runcmd")
}
