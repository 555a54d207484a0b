package main

// benchmark is one benchmark of the repository and what is compared of its figures.
type benchmark struct {
	pkg     string // its folder in the repository
	former  string // the folder in commits that do not have pkg yet; may be empty
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

// benchmarks is the list of compared benchmarks. Together they take each path of a request
// through a sale. Rates are what users notice. Processor times and ratios to an echo server
// have less noise on a machine with other load.
var benchmarks = []benchmark{
	{pkg: "executor", name: "Claims/callers=200", times: "80000x", figures: []figure{{"claims/s", higher}, {"cpu-ns/claim", lower}}},
	{pkg: "executor", name: "Claims/callers=2000", times: "150000x", figures: []figure{{"claims/s", higher}, {"cpu-ns/claim", lower}}},
	{pkg: "executor", name: "Refusals", times: "2000000x", figures: []figure{{"refusals/s", higher}, {"cpu-ns/refusal", lower}}},
	{pkg: "executor", name: "Grabs/ack=redis/keeps-nothing/callers=200", times: "80000x", figures: []figure{{"grabs/s", higher}, {"cpu-ns/grab", lower}}},
	{pkg: "executor/httpd", name: "Serve/conns=200", times: "2x", figures: []figure{{"claims:echo", higher}, {"claims:echo-cpu", higher}, {"sold_out:echo-cpu", higher}}},
	{pkg: "executor/httpd", name: "Serve/conns=2000", times: "2x", figures: []figure{{"claims:echo", higher}, {"claims:echo-cpu", higher}, {"sold_out:echo-cpu", higher}}},
	{pkg: "executor/httpd", name: "Stream/callers=2000", times: "1x", figures: []figure{{"stream/s", higher}}},
	{pkg: "executor/httpd", name: "StreamRefusals/streams=4", times: "2x", figures: []figure{{"refusals/s", higher}, {"µs-cpu/refusal", lower}}},
	{pkg: "executor/peers", former: "executor/links", name: "Forwarded/callers=200", times: "1x", figures: []figure{{"forwarded-us/claim", lower}}},
	{pkg: "backends/ledger", name: "Fold", times: "50x", figures: []figure{{"ns/claim", lower}, {"allocs/op", lower}}},
}
