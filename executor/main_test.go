package executor

import (
	"testing"

	"go.uber.org/goleak"
)

// Run must leave no goroutine; every test waits for the ones it starts.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
