package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"salectl/api"
)

// A process that says what it has left, and then nothing before time runs out, has said it: drain
// tells that, and does not say that the process does not answer.
func TestDrainTellsWhatItHeard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"sale":"tickets","state":%q,"shards":5,"assigned":0,"takers":false}`, api.ProcessStandby)
	}))
	defer server.Close()
	c := newCapture()
	code := c.run([]string{"salectl", "drain", "--timeout", "500ms", "--admin", server.URL, "--sale", "tickets"}, nil)
	if want := "timed out after 500ms: tickets: 5 shards left at "; code != 7 || !strings.Contains(c.err.String(), want) {
		t.Errorf("exit code %d, and it says %s\nwant %q", code, &c.err, want)
	}
}

// A process that gets a shard back while drain waits for its readiness is not drained.
func TestDrainOfShardThatReturns(t *testing.T) {
	var before atomic.Int32 // requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"sale":"tickets","state":%q,"shards":%d,"assigned":0,"takers":true,"unready":"a shard moves"}`, api.ProcessStandby, min(before.Add(1)-1, 1))
	}))
	defer server.Close()
	c := newCapture()
	code := c.run([]string{"salectl", "drain", "--timeout", "500ms", "--admin", server.URL, "--sale", "tickets"}, nil)
	if want := "timed out after 500ms: tickets: 1 shard left at "; code != 7 || !strings.Contains(c.err.String(), want) {
		t.Errorf("exit code %d, %s%s\nwant %q", code, &c.out, &c.err, want)
	}
}

// A process without a shard is not drained while no other process may own one: the sale sells nothing.
func TestDrainOfShardThatNobodyTakes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"sale":"tickets","state":%q,"shards":0,"assigned":0,"takers":false,"unready":"standby: idle"}`, api.ProcessStandby)
	}))
	defer server.Close()
	c := newCapture()
	code := c.run([]string{"salectl", "drain", "--timeout", "2500ms", "--admin", server.URL, "--sale", "tickets"}, nil)
	if want := "owns no shard, and it reaches no process that may own them\n  Start another"; code != 7 || !strings.Contains(c.err.String(), want) {
		t.Errorf("exit code %d, %s%s\nwant %q", code, &c.out, &c.err, want)
	}
}
