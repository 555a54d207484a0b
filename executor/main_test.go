package executor

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Run must leave no goroutine; every test waits for the ones it starts.
func TestMain(m *testing.M) {
	// Most of these tests wait for servers and for leases to run out, so that
	// more can be under way than there are processors; -parallel says otherwise.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
