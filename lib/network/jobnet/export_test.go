package jobnet

var Without = without
