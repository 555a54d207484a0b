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
	"salectl/planner"
)

// serverTimeout is how long the process that serves a sale may take to say how
// it goes. Its word is a help and no more.
const serverTimeout = time.Second

// asker is how status asks the processes that serve a sale.
type asker struct {
	admin *url.URL // the admin address to ask at; nil: where the leases say that claims are answered
	token string
	over  *tls.Config // nil: nothing was said of TLS
}

// askServer adds to a status what only the process that serves the sale can
// know: since when a node is down or a shard stalls, and what has become of holds.
// Whoever reads once sees no more than now. Where none tells all, the first counts
// that tells who there is.
func askServer(ctx context.Context, s *saleStatus, a asker) {
	for _, address := range a.where(serversOf(s.Status)) {
		told, err := a.read(ctx, address, s.Sale)
		switch {
		case err == nil:
			s.Server = &planner.ServerStatus{Address: address}
			if told.Nodes == nil {
				s.Server.Error = a.advise(notOperating)
			}
			s.tell(told)
			return
		case s.Server == nil || told.Processes != nil && s.Processes == nil:
			s.Server = &planner.ServerStatus{Address: address, Error: err.Error()}
			s.tell(told)
		}
	}
}

// where is where to ask, of those that the leases name.
func (a asker) where(named []string) []string {
	if a.admin != nil {
		return []string{a.admin.Host}
	}
	return named
}

// tell takes in what the process that serves a sale has told.
func (s *saleStatus) tell(told api.Sale) {
	s.Holds, s.PaymentCheck, s.Problems = told.Holds, told.PaymentCheck, told.Problems
	s.Processes, s.Ownership, s.Moves = told.Processes, told.Owners, told.Moves
	for at, n := range told.Nodes {
		if known := s.node(n.Name, at, len(told.Nodes)); known != nil {
			known.Server = &planner.Seen{Up: n.Up, Since: timeText(n.Since), Error: n.Error}
		}
	}
	for _, shard := range told.Shards {
		if known := s.shard(shard.Shard); known != nil {
			known.Stalled = &planner.Seen{Since: timeText(shard.Since), Error: shard.Error}
		}
	}
}

// node returns the lock node of a name, or where only the admin address tells names, the one
// at that place of so many; nil: it is none of the file's.
func (s *saleStatus) node(name string, at, of int) *planner.NodeStatus {
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

// mostAsked bounds how many processes are asked, one after another, until one tells.
const mostAsked = 3

// serversOf is where to ask: at the owner of the first shard, and then at those of others;
// where no majority of nodes names one, at whoever owned a shard last.
func serversOf(s *planner.Status) (all []string) {
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

// read asks one process. Beside an error it returns what that knows still which cannot tell how
// the sale stands.
func (a asker) read(ctx context.Context, address, sale string) (api.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	base := api.BaseURL(address)
	switch {
	case a.admin != nil:
		base = a.admin.String()
	case a.over != nil && !strings.HasPrefix(base, "https://"): // whoever writes to the lock nodes is not to get the token
		return api.Sale{}, errors.New("it speaks no TLS, and the command line has flags for that")
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
		if problem.Detail == problem.Outcome.Row().Detail { // that is for a buyer
			problem.Detail = cmp.Or(inability[problem.Outcome], problem.Detail)
		}
		if k := problem.Known; k != nil {
			told = api.Sale{Nodes: k.Nodes, Shards: k.Shards, Processes: k.Processes, Owners: k.Owners, Moves: k.Moves, Problems: k.Problems}
		}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", serverTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		err = syscall.ECONNREFUSED
	case !errors.As(err, &unexpected):
	case unexpected.StatusCode == http.StatusUnauthorized:
		err = errors.New(unauthorized(a.token))
	default:
		err = fmt.Errorf("it answers %s, which is not what salectl serve would say", unexpected.Status)
	}
	if unexpected != nil {
		err = errors.New(a.advise(err.Error()))
	}
	return told, err
}

// advise adds to what a process said that it may not have been asked at its admin address.
func (a asker) advise(said string) string {
	if a.admin == nil {
		return said
	}
	return said + "; " + adminHint("salectl status --admin")
}

// inability is what a process lacks that cannot tell how the whole sale stands, as operators
// are told.
var inability = map[api.Outcome]string{
	api.Standby:  "it reaches no owner of some of the shards",
	api.NoQuorum: "it has no right to sell at the moment",
	api.Draining: "it is going down",
}

// notOperating is why a process does not tell more.
const notOperating = "the bearer token may claim, and only one that may operate is told of nodes, shards and processes: " +
	"--token-file sends the first of its file"

// unauthorized says what is wrong with the token that a server has refused.
func unauthorized(token string) string {
	if token == "" {
		return "the bearer token is missing: name its file with --token-file"
	}
	return "the bearer token is wrong: check the file that --token-file names"
}
