package embedded

import (
	"testing"

	"go.uber.org/goleak"
)

// Close must leave no goroutine; every test closes what it opens.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
