package machine

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no task of a machine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
