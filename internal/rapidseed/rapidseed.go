// Package rapidseed makes the property tests of the packages that import it draw the same inputs in
// each run, so that a test that passed passes again. If SALECTL_TEST_FRESH is set, each run draws
// other inputs.
package rapidseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

func init() {
	if os.Getenv("SALECTL_TEST_FRESH") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
