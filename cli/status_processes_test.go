package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/planner/current"
)

// Several processes are shown with what is known of each, and a question mark where nothing
// is; the first that tells is believed.
func TestStatusOfSeveralProcesses(t *testing.T) {
	address := answering(t, http.StatusOK, `{"sale":"tickets","phase":"open","nodes":[],"shards":[{"shard":0,"state":"moving","owner":"a:1","load":1234.5,"waiting":3,"busy":true},
			{"shard":1,"state":"unknown"},{"shard":2,"state":"moving","owner":"b:1"}],
		"processes":[{"address":"a:1","version":"v2","state":"serving","here":true,"up":true,"shards":2,"assigned":1,"requests":120.4,"forwarded":80},
			{"address":"b:1","state":"draining","up":false,"assigned":2},{"address":"c:1","state":"standby","up":true,"shards":0,"assigned":0,"requests":0,"forwarded":0}],
		"moves":[{"shard":0,"from":"a:1","to":"b:1","stage":"due"},{"shard":2,"to":"a:1","stage":"takes"}]}`)
	s := troubled("127.0.0.1:1") // nobody is there
	s.Shards[2].Owner = address
	view := &saleStatus{Status: s}
	queryServer(t.Context(), view, statusClient{token: "secret"})
	if s.Server == nil || s.Server.Address != address || s.Server.Error != "" {
		t.Fatalf("asked was %+v", s.Server)
	}
	c := newCapture()
	c.statusText(view, false)
	got := squeeze(c.out.String())
	for _, want := range []string{`served by 2 processes
`, `
process version state shards assigned requests/s forwarded
a:1 v2 serving 2 1 120 66% reports this
b:1 - not reached ? 2 ? ? the reporting process does not reach it
c:1 - standby 0 0 0.0 -
shard 0 moves from a:1 to b:1: not started, according to a:1
shard 2 moves from no reachable owner to a:1: the new owner waits for the lease
`, "limit available held sold requests/s\n", " 30 20 0 10 1,235 busier than the others\n", " 30 20 0 10 ?\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwhich lacks\n%s", got, want)
		}
	}
}

// After one was killed, the others cannot tell how the sale stands until they have its shards, and
// tell who is there; they are shown, and not the one that answers nothing.
func TestStatusWhileOneIsDead(t *testing.T) {
	address := answering(t, http.StatusServiceUnavailable, fmt.Sprintf(`{"outcome":"standby","detail":%q,"known":{
		"nodes":[{"up":true,"since":"2026-11-11T11:00:00Z"},{"up":false,"since":"2026-11-11T11:58:03Z"},{"up":true,"since":"2026-11-11T11:00:00Z"}],
		"shards":[{"shard":0,"state":"unknown"},{"shard":1,"state":"selling","owner":"b:1"},{"shard":2,"state":"stalled","owner":"a:1","since":"2026-11-11T11:59:00Z"}],
		"processes":[{"address":"a:1","state":"serving","here":true,"up":true,"shards":1,"assigned":1},
			{"address":"b:1","state":"serving","up":true,"shards":1,"assigned":1},{"address":"127.0.0.1:1","state":"serving","up":false,"assigned":1}],
		"moves":[{"shard":0,"to":"a:1","stage":"takes"}],
		"problems":[{"kind":"peer_unreached","level":"warn","subject":"peer","where":"127.0.0.1:1","message":"another process is not reached"}]}}`, api.Standby.Row().Detail))
	s := troubled("127.0.0.1:1") // nobody is there
	s.Shards[2].Owner = address
	view := &saleStatus{Status: s}
	queryServer(t.Context(), view, statusClient{token: "secret"})
	view.judge()
	const why = "does not report the state of the whole sale: standby: it reaches no owner of some shards"
	if want := (current.ServerStatus{Address: address, Error: "standby: it reaches no owner of some shards"}); s.Server == nil || *s.Server != want {
		t.Fatalf("asked was %+v, want %+v", s.Server, want)
	}
	if want := "the process at " + address + " " + why; !slices.Contains(view.Health.Reasons, want) {
		t.Errorf("its health is %q, which lacks %q", view.Health.Reasons, want)
	}
	c := newCapture()
	c.statusText(view, false)
	got := squeeze(c.out.String())
	for _, want := range []string{"\n" + address + ", which reaches 2 of 3 processes, " + why + `
`, `
! shard 0 has no reachable owner
! another process is not reached: peer 127.0.0.1:1
`, `
a:1 - serving 1 1 ? ? reports this
b:1 - serving 1 1 ? ?
127.0.0.1:1 - not reached ? 1 ? ? the reporting process does not reach it
shard 0 moves from no reachable owner to a:1: the new owner waits for the lease
`, " stalls since 2026-11-11T11:59:00Z\n", "\nb:1 - - down since 2026-11-11T11:58:03Z: connection refused\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwhich lacks\n%s", got, want)
		}
	}
}

// In an outage all shards that a process reports are shown, by number, also if the run and its leases are unknown.
func TestStatusOfAnUnknownRun(t *testing.T) {
	view := &saleStatus{Status: &current.Status{
		Brief:       current.Brief{SaleSummary: api.SaleSummary{Sale: "tickets", Phase: ledger.PhaseUnknown}},
		LedgerError: "no answer", Shards: []current.ShardStatus{{Shard: 1, Owner: "a:1", LeaseLeftSeconds: 2, Error: current.NotRead}},
	}}
	view.addReport(api.Sale{Known: api.Known{Shards: []api.Shard{
		{Shard: 0, State: api.ShardMoving}, {Shard: 1, State: api.ShardSelling, Owner: "a:1"}, {Shard: 2, State: api.ShardStalled, Owner: "b:1"},
	}}})
	for i, owner := range []string{"", "a:1", "b:1"} {
		if s := view.Shards[i]; len(view.Shards) != 3 || s.Shard != i || s.Error != current.NotRead || s.Server.Owner != owner || s.LeaseLeftSeconds > 0 != (i == 1) {
			t.Fatalf("the shards are %+v", view.Shards)
		}
	}
}

// A closed sale neither opens nor closes.
func TestHoursOfAClosedSale(t *testing.T) {
	s := troubled("")
	for phase, want := range map[string]string{
		ledger.PhaseOpen: "  opened at 2020-11-11T12:00:00Z, closes at 2126-11-11T12:00:00Z\n", ledger.PhaseClosed: "  opened at 2020-11-11T12:00:00Z\n",
	} {
		s.Phase, s.ClosesAt = phase, time.Date(2126, 11, 11, 12, 0, 0, 0, time.UTC)
		c := newCapture()
		if c.statusText(&saleStatus{Status: s}, false); !strings.Contains(c.out.String(), want) {
			t.Errorf("%s: it says\n%s\nwhich lacks\n%s", phase, c.out.String(), want)
		}
	}
}

// TestStatusOfProblems shows the problems of the process that serves the sale, once.
func TestStatusOfProblems(t *testing.T) {
	address := answering(t, http.StatusServiceUnavailable, fmt.Sprintf(`{"outcome":"no_quorum","detail":%q,"known":{"nodes":[],"shards":[],
		"processes":[{"address":"a:1","state":"serving","here":true,"up":true,"assigned":3}],"problems":[
		{"kind":"node_down","level":"warn","subject":"node","message":"a lock node cannot be used"},
		{"kind":"shards_stalled","level":"warn","subject":"shards","where":"0-2","message":"shards stall"},
		{"kind":"clock","level":"warn","message":"the clock is off","error":"it is ahead by 1h","remedy":"set it right"},
		{"kind":"shard_log_broken","level":"error","subject":"shards","where":"0-2","since":"2026-11-11T11:59:00Z","message":"a shard's log is gone"}]}}`, api.NoQuorum.Row().Detail))
	s := troubled("127.0.0.1:1") // nobody is there
	s.Shards[2].Owner = address
	view := &saleStatus{Status: s}
	queryServer(t.Context(), view, statusClient{token: "secret"})
	view.judge()
	c := newCapture()
	c.statusText(view, false)
	for _, want := range []string{"the clock is off: it is ahead by 1h; set it right", "a shard's log is gone: shards 0-2, since 2026-11-11T11:59:00Z"} {
		if !slices.Contains(view.Health.Reasons, want) || !strings.Contains(c.out.String(), "  ! "+want+"\n") {
			t.Errorf("it lacks %q: %q\n%s", want, view.Health.Reasons, c.out.String())
		}
	}
	for _, shown := range []string{"a lock node cannot be used", "shards stall:"} { // by the tables
		if strings.Contains(c.out.String(), shown) {
			t.Errorf("it says %q:\n%s", shown, c.out.String())
		}
	}
	if len(view.Problems) != 4 {
		t.Errorf("its problems are %+v", view.Problems)
	}
}

// Something is amiss while a shard is nobody's that is reached; not while shards move, and not for a process
// that is to own none.
func TestHealthOfSeveralProcesses(t *testing.T) {
	lose := func(s *saleStatus, shards ...int) {
		for _, i := range shards {
			s.Shards[i].Server = &api.Shard{Shard: i, State: api.ShardUnknown}
		}
	}
	for name, test := range map[string]struct {
		change func(*saleStatus)
		reason string // "": nothing is amiss
	}{
		"all are reached": {change: func(*saleStatus) {}},
		"shards move": {change: func(s *saleStatus) {
			s.Moves = []api.Move{{Shard: 1, From: "b:1", To: "a:1", Stage: api.MoveGives}}
		}},
		"one drains":    {change: func(s *saleStatus) { s.Processes[1].State = api.ProcessDraining }},
		"one stands by": {change: func(s *saleStatus) { s.Processes[2].State = api.ProcessStandby }},
		"two have ended": {change: func(s *saleStatus) {
			s.Processes[2].State, s.Processes[2].Up = api.ProcessStandby, false
			s.Processes = append(s.Processes, api.Process{Address: "d:1", State: api.ProcessDraining})
		}},
		"one is stopped": {func(s *saleStatus) { s.Processes[1].Up = false }, "shard 1 has no reachable owner"},
		"one is killed": {func(s *saleStatus) { s.Processes[1].Up = false; lose(s, 1, 2) },
			"shards 1, 2 have no reachable owner"},
		"one has ended that owned": {func(s *saleStatus) { s.Processes[1].State, s.Processes[1].Up = api.ProcessDraining, false },
			"shard 1 has no reachable owner"},
		"two are killed": {func(s *saleStatus) { s.Processes[1].Up, s.Processes[2].Up = false, false },
			"shard 1 has no reachable owner"},
		"one is there again": {func(s *saleStatus) {
			s.Processes = append(s.Processes, api.Process{Address: "b:1", State: api.ProcessServing})
			lose(s, 2)
		}, "shard 2 has no reachable owner"},
		"one alone begins": {change: func(s *saleStatus) { s.Processes = s.Processes[:1]; lose(s, 0, 1, 2) }},
		"paused":           {change: func(s *saleStatus) { s.Phase, s.Processes[1].Up = ledger.PhasePaused, false }},
	} {
		t.Run(name, func(t *testing.T) {
			view := &saleStatus{Status: &current.Status{Brief: current.Brief{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}}, Owner: "a:1", Server: &current.ServerStatus{Address: "a:1"}}}
			for i, owner := range []string{"a:1", "b:1", "a:1"} {
				server := &api.Shard{Shard: i, State: api.ShardSelling, Owner: owner}
				view.Shards = append(view.Shards, current.ShardStatus{Shard: i, Owner: owner, LeaseLeftSeconds: 2, Server: server})
			}
			for _, address := range []string{"a:1", "b:1", "c:1"} {
				view.Processes = append(view.Processes, api.Process{Address: address, State: api.ProcessServing, Up: true})
			}
			test.change(view)
			view.judge()
			state, reasons := healthOK, []string{}
			if test.reason != "" {
				state, reasons = healthDegraded, []string{test.reason}
			}
			if view.Health.State != state || !slices.Equal(view.Health.Reasons, reasons) {
				t.Errorf("its health is %+v, want %s %q", view.Health, state, reasons)
			}
			c := newCapture()
			c.statusText(view, false)
			if text := c.out.String(); test.reason != "" && !strings.Contains(text, "  ! "+test.reason+"\n") || test.reason == "" && strings.Contains(text, "!") {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}

// If no process reports everything, the first answer that lists the processes counts, or else the
// first answer, or else the first failure.
func TestStatusOfTheFirstAnswer(t *testing.T) {
	answer := func(outcome api.Outcome, known string) string {
		return answering(t, http.StatusServiceUnavailable, fmt.Sprintf(`{"outcome":%q,"detail":"of %[1]s"%s}`, outcome, known))
	}
	const processes = `,"known":{"processes":[{"address":"a:1","state":"serving","up":true,"assigned":3}]}`
	const silent = "127.0.0.1:1" // nobody is there
	one, other, whole := answer(api.Standby, ""), answer(api.Draining, ""), answer(api.NoQuorum, processes)
	for _, test := range []struct {
		addresses []string
		want      string
	}{
		{[]string{silent, "127.0.0.1:2"}, silent},
		{[]string{silent, one}, one},
		{[]string{one, other}, one},
		{[]string{one, silent}, one},
		{[]string{one, whole, other}, whole},
	} {
		view := &saleStatus{Status: troubled(silent)}
		statusClient{token: "secret"}.query(t.Context(), view, test.addresses, view.addReport)
		if got := view.Server.Address; got != test.want || (got == whole) != (len(view.Processes) == 1) {
			t.Errorf("of %q, %s counts, with %d processes; want %s", test.addresses, got, len(view.Processes), test.want)
		}
	}
}
