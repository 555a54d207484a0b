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
	"salectl/planner"
	"salectl/planner/current"
)

// serverTimeout bounds the query to the process that serves a sale, whose report is optional.
const serverTimeout = time.Second

// asker configures queries to the processes that serve a sale.
type asker struct {
	admin *url.URL // admin address; nil: the addresses for claims in the leases
	token string
	over  *tls.Config // nil: no flags of TLS
}

// askServer adds to a status what only the process that serves the sale knows: since when a
// node is down or a shard stalls, and the state of holds. A single read shows the present
// only.
func askServer(ctx context.Context, s *saleStatus, a asker) {
	a.query(ctx, s, serversOf(s.Status), s.tell)
}

// query queries processes in sequence until one reports everything, which add receives. If none
// does, the first answer that lists the processes counts, or else the first answer, or else the
// first failure.
func (a asker) query(ctx context.Context, s *saleStatus, addresses []string, add func(told api.Sale)) {
	if a.admin != nil {
		addresses = []string{a.admin.Host}
	}
	best := 0
	for _, address := range addresses {
		told, err := a.read(ctx, address, s.Sale)
		problem, answered := errors.AsType[*api.Problem](err)
		value := 1 // of a failure
		switch {
		case told.Processes != nil:
			value = 3
		case answered:
			value = 2
		}
		switch {
		case err == nil:
			s.Server = &current.ServerStatus{Address: address}
			if told.Nodes == nil {
				s.Server.Error = a.advise(notOperating)
			}
			add(told)
			return
		case s.unread() && answered && problem.Outcome == api.NoSuchSale: // it serves others
		case value > best:
			best = value
			s.Server = &current.ServerStatus{Address: address, Error: err.Error()}
			s.tell(told)
		}
	}
}

// tell adds the report of the process that serves a sale.
func (s *saleStatus) tell(told api.Sale) {
	s.Holds, s.PaymentCheck, s.Problems = told.Holds, told.PaymentCheck, told.Problems
	s.Processes, s.Moves = told.Processes, told.Moves
	for i, n := range told.Nodes {
		if known := s.node(n.Name, i, len(told.Nodes)); known != nil {
			known.Server = &told.Nodes[i]
		}
	}
	for i, shard := range told.Shards {
		if known := s.shard(shard.Shard); known != nil {
			known.Server = &told.Shards[i]
		}
	}
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

// mostAsked bounds the number of processes that are queried, in sequence, until one reports.
const mostAsked = 3

// serversOf returns the addresses to query: the owner of the first shard, then those of
// others; if no majority of nodes names one, the last owners of shards.
func serversOf(s *current.Status) (all []string) {
	add := func(address string) {
		if address != "" && len(all) < mostAsked && !slices.Contains(all, address) {
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

// read queries one process. Beside an error it returns what a process still knows that cannot
// read the state of the sale.
func (a asker) read(ctx context.Context, address, sale string) (api.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	base := api.BaseURL(address)
	switch {
	case a.admin != nil:
		base = a.admin.String()
	case a.over != nil && !strings.HasPrefix(base, "https://"): // a process that writes to the lock nodes must not obtain the token
		return api.Sale{}, errors.New("it does not use TLS, but the command has TLS flags")
	}
	client, err := api.NewClient(api.Config{Servers: []string{base}, Sale: sale, Token: a.token, TLS: a.over})
	if err != nil {
		return api.Sale{}, err
	}
	defer client.Close()
	told, err := client.Status(ctx)
	var unexpected *api.UnexpectedError
	var problem *api.Problem
	switch {
	case errors.As(err, &problem):
		if problem.Detail == problem.Outcome.Row().Detail { // that detail is for buyers
			problem.Detail = cmp.Or(inability[problem.Outcome], problem.Detail)
		}
		if problem.Known != nil {
			told.Known = *problem.Known
		}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", serverTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		err = syscall.ECONNREFUSED
	case !errors.As(err, &unexpected):
	case unexpected.StatusCode == http.StatusUnauthorized:
		err = errors.New(unauthorized(a.token))
	default:
		err = fmt.Errorf("it answers %s, which is not a response of salectl serve", unexpected.Status)
	}
	if unexpected != nil {
		err = errors.New(a.advise(err.Error()))
	}
	return told, err
}

// advise adds a note that the address may not be an admin address.
func (a asker) advise(said string) string {
	if a.admin == nil {
		return said
	}
	return said + "; check " + adminHint
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
	// readPatience bounds the read of the ledger, after which status shows what others know;
	// half of --timeout, if that is less.
	readPatience = 20 * time.Second
	// lookPatience bounds the queries to those others.
	lookPatience = 5 * time.Second
	// mostLooked bounds the number of processes that are then asked whether they serve the
	// sale.
	mostLooked = 8
)

// readStatus reads the status of a sale, and queries the process that serves it. If the ledger
// cannot be read, it returns what others report, beside the error, which is ErrStore. bounded
// is ctx until --timeout.
func (p *program) readStatus(ctx, bounded context.Context, store *backends.Store, name string, a asker, o statusOptions) (*saleStatus, error) {
	cfg := p.planning(store)
	cfg.ReadTimeout = min(readPatience, o.timeout/2)
	status, err := current.ReadStatus(bounded, cfg.Backends, name)
	if err == nil {
		view := &saleStatus{Status: status}
		askServer(bounded, view, a)
		view.judge()
		return view, nil
	}
	if bounded.Err() != nil || !errors.Is(err, planner.ErrStore) {
		return nil, err
	}
	return p.readOutage(ctx, store, name, a, err), err
}

// readOutage returns a sale's status as reported by the lock nodes and a process that serves
// it, which knows the last state of the ledger; nil if there is none.
func (p *program) readOutage(ctx context.Context, store *backends.Store, name string, a asker, why error) *saleStatus {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	outage, err := current.ReadOutage(ctx, p.planning(store).Backends, name, why)
	if err != nil {
		return nil
	}
	view := &saleStatus{Status: outage.Status("")}
	processes := outage.Processes()
	a.query(ctx, view, processes[:min(len(processes), mostLooked)], func(told api.Sale) {
		server := view.Server
		view.Status = outage.Status(told.UID) // of all leases those of this run
		view.Server, server.Phase = server, told.Phase
		view.know(told)
	})
	view.judge()
	return view
}

// know adds the report of the process that serves the sale, which may be older than the
// ledger.
func (s *saleStatus) know(told api.Sale) {
	s.SaleSummary = told.SaleSummary
	s.Phase = ledger.PhaseUnknown // to others than the process, which ServerStatus has
	for _, shard := range told.Shards {
		if shard.State == api.ShardStalled && s.shard(shard.Shard) == nil {
			s.Shards = append(s.Shards, current.ShardStatus{Shard: shard.Shard, Error: current.NotRead})
		}
	}
	s.tell(told)
}

// unread reports whether the ledger cannot be read.
func (s *saleStatus) unread() bool { return s.Phase == ledger.PhaseUnknown }

// shard returns the shard with a number; nil if nothing is known of it.
func (s *saleStatus) shard(n int) *current.ShardStatus {
	for i := range s.Shards {
		if s.Shards[i].Shard == n {
			return &s.Shards[i]
		}
	}
	return nil
}
