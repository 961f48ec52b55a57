package table

// Parse and Format let tests meet the table's text without a directory.
var (
	Parse  = parse
	Format = format
	Seal   = seal
	Lend   = File.lend
)
