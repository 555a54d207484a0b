package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/executor/status"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// serverTimeout bounds the query to the process that serves a sale, whose report is optional.
const serverTimeout = time.Second

// statusClient queries the processes that serve a sale.
type statusClient struct {
	admin *url.URL // admin address; nil: the addresses for claims in the leases
	token string
	over  *tls.Config // nil: no flags of TLS
}

// queryServer adds the report of the process that serves the sale to a status: since when a
// node is down or a shard stalls, and the state of holds. The ledger and the nodes show the
// present only.
func queryServer(ctx context.Context, s *saleStatus, c statusClient) {
	c.query(ctx, s, serversOf(s.Status), s.addReport)
}

// query queries processes in sequence until one reports everything; add receives that report. If
// none does, the first answer that lists the processes counts, or else the first answer, or else
// the first failure.
func (c statusClient) query(ctx context.Context, s *saleStatus, addresses []string, add func(report api.Sale)) {
	if c.admin != nil {
		addresses = []string{c.admin.Host}
	}
	best := 0
	for _, address := range addresses {
		report, err := c.read(ctx, address, s.Sale)
		problem, answered := errors.AsType[*api.Problem](err)
		value := 1 // of a failure
		switch {
		case report.Processes != nil:
			value = 3
		case answered:
			value = 2
		}
		switch {
		case err == nil:
			s.Server = &current.ServerStatus{Address: address}
			if report.Nodes == nil {
				s.Server.Error = c.advise(notOperating)
			}
			add(report)
			return
		case s.unread() && answered && problem.Outcome == api.NoSuchSale: // it serves others
		case value > best:
			best = value
			s.Server = &current.ServerStatus{Address: address, Error: err.Error()}
			s.addReport(report)
		}
	}
}

// addReport adds the report of the process that serves a sale.
func (s *saleStatus) addReport(report api.Sale) {
	s.Holds, s.PaymentCheck, s.Problems = report.Holds, report.PaymentCheck, report.Problems
	s.Processes, s.Moves = report.Processes, report.Moves
	for i, n := range report.Nodes {
		if known := s.node(n.Name, i, len(report.Nodes)); known != nil {
			known.Server = &report.Nodes[i]
		}
	}
	for i, shard := range report.Shards {
		if s.unread() && s.shard(shard.Shard) == nil { // its lease is unknown, or it has none
			s.Shards = append(s.Shards, current.ShardStatus{Shard: shard.Shard, Error: current.NotRead})
		}
		if known := s.shard(shard.Shard); known != nil {
			known.Server = &report.Shards[i]
		}
	}
	slices.SortFunc(s.Shards, func(a, b current.ShardStatus) int { return a.Shard - b.Shard })
}

// node returns the lock node with a name or, as only the admin address reports names, the one
// at an index of as many nodes; nil if it is not in the file.
func (s *saleStatus) node(name string, at, of int) *current.NodeStatus {
	if name == "" && of == len(s.Nodes) {
		return &s.Nodes[at]
	}
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// maxQueries bounds the number of processes that are queried, in sequence, until one reports.
const maxQueries = 3

// serversOf returns the addresses to query: the owner of the first shard, then those of
// others; if no majority of nodes names one, the last owners of shards.
func serversOf(s *current.Status) (all []string) {
	add := func(address string) {
		if address != "" && len(all) < maxQueries && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	add(s.Owner)
	for _, shard := range s.Shards {
		if shard.LeaseLeftSeconds > 0 {
			add(shard.Owner)
		}
	}
	if len(all) == 0 {
		for _, shard := range s.Shards {
			add(shard.Owner)
		}
	}
	return all
}

// read queries one process. A process that cannot read the state of the sale returns the
// remaining report with its error.
func (c statusClient) read(ctx context.Context, address, sale string) (api.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	base := api.BaseURL(address)
	switch {
	case c.admin != nil:
		base = c.admin.String()
	case c.over != nil && !strings.HasPrefix(base, "https://"): // a process that writes to the lock nodes must not obtain the token
		return api.Sale{}, errors.New("it does not use TLS, but the command has TLS flags")
	}
	client, err := api.NewClient(api.Config{Servers: []string{base}, Sale: sale, Token: c.token, TLS: c.over})
	if err != nil {
		return api.Sale{}, err
	}
	defer client.Close()
	report, err := client.Status(ctx)
	var unexpected *api.UnexpectedError
	var problem *api.Problem
	switch {
	case errors.As(err, &problem):
		if problem.Detail == problem.Outcome.Row().Detail { // that detail is for buyers
			problem.Detail = cmp.Or(inability[problem.Outcome], problem.Detail)
		}
		if problem.Known != nil {
			report.Known = *problem.Known
		}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", serverTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		err = syscall.ECONNREFUSED
	case !errors.As(err, &unexpected):
	case unexpected.StatusCode == http.StatusUnauthorized:
		err = errors.New(unauthorized(c.token))
	default:
		err = fmt.Errorf("it answers %s, which is not a response of salectl serve", unexpected.Status)
	}
	if unexpected != nil {
		err = errors.New(c.advise(err.Error()))
	}
	return report, err
}

// advise adds a note that the address may not be an admin address.
func (c statusClient) advise(text string) string {
	if c.admin == nil {
		return text
	}
	return text + "; check " + adminHint
}

// inability describes for operators why a process cannot report the state of the whole sale.
var inability = map[api.Outcome]string{
	api.Standby:  "it reaches no owner of some shards",
	api.NoQuorum: "it cannot sell at the moment: it has no lease, or the ledger does not answer",
	api.Draining: "it is shutting down",
}

// notOperating is why a process does not report more.
const notOperating = "the bearer token lacks the right operate, which nodes, shards and processes need: " +
	"--token-file sends the first token of its file"

// unauthorized describes why a server has rejected the token.
func unauthorized(token string) string {
	if token == "" {
		return "the bearer token is missing: name its file with --token-file"
	}
	return "the bearer token is wrong: check the file that --token-file names"
}

const (
	// readTimeout bounds the read of the ledger; half of --timeout, if that is less. After it,
	// status shows the reports of the lock nodes and of a process that serves the sale.
	readTimeout = 20 * time.Second
	// outageTimeout bounds those reports.
	outageTimeout = 5 * time.Second
	// slowRead is the duration of a read of the ledger after which these reports are requested beside it.
	slowRead = 100 * time.Millisecond
	// hopelessRead bounds the rest of the read if the process reports that it cannot read the ledger either.
	hopelessRead = 2 * time.Second
	// maxOutageQueries bounds the number of processes that are then queried: some may serve
	// other sales only.
	maxOutageQueries = 8
)

// readStatus reads the status of a sale, and queries the process that serves it. If the ledger
// cannot be read, it returns the status of readOutage and an ErrStore. bounded is ctx until
// --timeout.
func (p *program) readStatus(ctx, bounded context.Context, store *backends.Store, name string, c statusClient, o statusOptions) (*saleStatus, error) {
	cfg := p.planning(store)
	cfg.ReadTimeout = min(readTimeout, o.timeout/2)
	began := time.Now()
	reading, stop := context.WithCancel(bounded)
	defer stop()
	var read *current.Status
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		read, err = current.ReadStatus(reading, cfg.Backends, name)
	}()
	unread := p.awaitRead(bounded, done, store, name, c, o)
	stop()
	if <-done; unread != nil && bounded.Err() == nil && errors.Is(err, context.Canceled) {
		why := fmt.Errorf("it was not read in %s, and the serving process cannot read it either", time.Since(began).Round(100*time.Millisecond))
		unread.LedgerError = why.Error()
		unread.judge()
		return unread, &planner.StoreError{Err: why}
	}
	if err == nil {
		view := &saleStatus{Status: read}
		queryServer(bounded, view, c)
		view.judge()
		return view, nil
	}
	if bounded.Err() != nil || !errors.Is(err, planner.ErrStore) {
		return nil, err
	}
	return p.readOutage(ctx, store, name, c, err), err
}

// errSlow is the state of a ledger that is still being read.
var errSlow = errors.New("it has not answered yet")

// awaitRead waits for the end of a read of the ledger, and returns nil. If the read is slow, awaitRead queries
// the lock nodes and a process that serves the sale, and prints their report on a terminal. If that process
// cannot read the ledger either, awaitRead soon returns the report.
func (p *program) awaitRead(ctx context.Context, done <-chan struct{}, store *backends.Store, name string, c statusClient, o statusOptions) *saleStatus {
	ctx, end := context.WithCancel(ctx)
	var report chan *saleStatus // nil: no query is under way
	defer func() {
		if end(); report != nil {
			<-report // the store is closed next
		}
	}()
	delay := slowRead
	if o.waitFor != "" || o.interval > 0 { // the read is repeated
		delay = hopelessRead
	}
	slow := time.After(delay)
	var unread *saleStatus
	var hopeless <-chan time.Time
	for {
		select {
		case <-done:
			return nil
		case <-slow:
			report = make(chan *saleStatus, 1)
			go func(to chan<- *saleStatus) { to <- p.readOutage(ctx, store, name, c, errSlow) }(report)
		case view := <-report:
			if report = nil; view == nil {
				continue
			}
			if o.waitFor == "" {
				defer p.printBriefly(reading{view: view, at: time.Now()}, o)()
			}
			if slices.ContainsFunc(view.Problems, func(problem api.SaleProblem) bool { return problem.Kind == status.LedgerUnread.Name }) {
				unread, hopeless = view, time.After(hopelessRead)
			}
		case <-hopeless:
			return unread
		}
	}
}

// printBriefly prints a status on a terminal until erase is called.
func (p *program) printBriefly(r reading, o statusOptions) (erase func()) {
	if !p.draws(o) {
		return func() {}
	}
	return terminal.PrintBriefly(p.out.W, p.readingText(r, spec.Sale{Name: r.view.Sale}, o.all))
}

// readOutage returns a sale's status as reported by the lock nodes and a process that serves
// it, which has read the last state of the ledger; nil if that read fails, too.
func (p *program) readOutage(ctx context.Context, store *backends.Store, name string, c statusClient, why error) *saleStatus {
	ctx, cancel := context.WithTimeout(ctx, outageTimeout)
	defer cancel()
	outage, err := current.ReadOutage(ctx, p.planning(store).Backends, name, why)
	if err != nil {
		return nil
	}
	view := &saleStatus{Status: outage.Status("")}
	processes := outage.Processes()
	c.query(ctx, view, processes[:min(len(processes), maxOutageQueries)], func(report api.Sale) {
		server := view.Server
		view.Status = outage.Status(report.UID) // of all leases those of this run
		view.Server, server.Phase = server, report.Phase
		view.addOutageReport(report)
	})
	view.judge()
	return view
}

// addOutageReport adds the report of the process that serves the sale, which may be older than
// the ledger.
func (s *saleStatus) addOutageReport(report api.Sale) {
	s.SaleSummary = report.SaleSummary
	s.Phase = ledger.PhaseUnknown // to others than the process, which ServerStatus has
	s.addReport(report)
}

// unread reports whether the ledger cannot be read.
func (s *saleStatus) unread() bool { return s.Phase == ledger.PhaseUnknown }

// shard returns the shard with a number; nil if it is absent.
func (s *saleStatus) shard(n int) *current.ShardStatus {
	for i := range s.Shards {
		if s.Shards[i].Shard == n {
			return &s.Shards[i]
		}
	}
	return nil
}
