package hbase

import (
	"testing"

	"salectl/backends/backendtest"
	"salectl/backends/ledger"
)

var noCreateAfterDelete = backendtest.Exemption{
	Promise: "CreateAfterDelete",
	Reason:  "a delete marker also hides what is stored in its slots later; no log's name is used again",
}

func TestLogs(t *testing.T) {
	backendtest.TestLogs(t, func(t *testing.T) (a, b ledger.Logs) {
		prefix := newPrefix()
		return store{mustOpen(t), prefix}, store{mustOpen(t), prefix}
	}, noCreateAfterDelete)
	backendtest.TestLogsReopened(t, func(t *testing.T) (reopen func() ledger.Logs) {
		prefix := newPrefix()
		var last *Logs
		return func() ledger.Logs {
			if last != nil {
				last.Close()
			}
			last = mustOpen(t)
			return store{last, prefix}
		}
	})
}
