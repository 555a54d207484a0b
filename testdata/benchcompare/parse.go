package main

import (
	"bytes"
	"fmt"

	"golang.org/x/perf/benchfmt"
)

// result is what one run of a benchmark reported, by unit; nil: the version has no such
// benchmark.
type result map[string]float64

// parse reads the output of a test program that was to run one benchmark. It names units
// as the benchmark does.
func parse(out []byte, name string) (result, error) {
	var r result
	for lines := benchfmt.NewReader(bytes.NewReader(out), name); lines.Scan(); {
		switch line := lines.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, line
		case *benchfmt.Result:
			if r != nil {
				return nil, fmt.Errorf("more than one result, of which the last is %s", line.Name)
			}
			r = make(result)
			for _, v := range line.Values {
				if v.OrigUnit != "" { // the reader turned nanoseconds into seconds
					r[v.OrigUnit] = v.OrigValue
				} else {
					r[v.Unit] = v.Value
				}
			}
		}
	}
	return r, nil
}
