package nft

// Listed tells how many connections of an address the kernel lists.
var Listed = count
