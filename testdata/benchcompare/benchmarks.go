package main

// benchmark is one benchmark of the repository and what is compared of its figures.
type benchmark struct {
	pkg     string // its folder, from the repository's on
	name    string // of one benchmark, as in its output, without the number of processors
	times   string // of -benchtime: as much work on both sides, so that what grows with it is alike
	figures []figure
}

// figure is one unit that a benchmark reports.
type figure struct {
	unit   string
	better direction
}

type direction int

const (
	higher direction = iota
	lower
)

// benchmarks are what is compared: short, and together a cut through what a sale does.
// The rates tell what users see. Processor times and ratios to the echo tell the same with
// less noise on a machine that others use too.
var benchmarks = []benchmark{
	{"executor", "Claims/callers=200", "80000x", []figure{{"claims/s", higher}, {"cpu-ns/claim", lower}}},
	{"executor", "Claims/callers=2000", "150000x", []figure{{"claims/s", higher}, {"cpu-ns/claim", lower}}},
	{"executor", "Refusals", "2000000x", []figure{{"refusals/s", higher}, {"cpu-ns/refusal", lower}}},
	{"executor", "Grabs/ack=redis/keeps-nothing/callers=200", "80000x", []figure{{"grabs/s", higher}, {"cpu-ns/grab", lower}}},
	{"executor/httpd", "Serve/conns=200", "2x", []figure{{"claims:echo", higher}, {"claims:echo-cpu", higher}, {"sold_out:echo-cpu", higher}}},
	{"executor/httpd", "Serve/conns=2000", "2x", []figure{{"claims:echo", higher}, {"claims:echo-cpu", higher}, {"sold_out:echo-cpu", higher}}},
	{"backends/ledger", "Fold", "50x", []figure{{"ns/claim", lower}, {"allocs/op", lower}}},
}
