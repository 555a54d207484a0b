package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"salectl/api"
	"salectl/planner"
)

// serverTimeout is how long the process that serves a sale may take to say how
// it goes. Its word is a help and no more.
const serverTimeout = time.Second

// askServer adds to a status what only the process that serves the sale can
// know: since when a node is down or a shard stalls, and what has become of holds.
// Whoever reads once sees no more than now.
func askServer(ctx context.Context, s *saleStatus, token string) {
	var told api.Sale
	for _, address := range serversOf(s.Status) {
		var err error
		if told, err = readServer(ctx, address, s.Sale, token); err == nil {
			s.Server = &planner.ServerStatus{Address: address}
			break
		}
		if s.Server == nil {
			s.Server = &planner.ServerStatus{Address: address, Error: err.Error()}
		}
	}
	if s.Server != nil {
		s.tell(told)
	}
}

// tell takes in what the process that serves a sale has told.
func (s *saleStatus) tell(told api.Sale) {
	s.Holds, s.PaymentCheck = told.Holds, told.PaymentCheck
	s.Processes, s.Ownership, s.Moves = told.Processes, told.Owners, told.Moves
	for _, n := range told.Nodes {
		for i := range s.Nodes {
			if s.Nodes[i].Name == n.Name {
				s.Nodes[i].Server = &planner.Seen{Up: n.Up, Since: timeText(n.Since), Error: n.Error}
			}
		}
	}
	for _, shard := range told.Shards {
		if known := s.shard(shard.Shard); known != nil {
			known.Stalled = &planner.Seen{Since: timeText(shard.Since), Error: shard.Error}
		}
	}
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

// readServer asks one process.
func readServer(ctx context.Context, address, sale, token string) (api.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + address}, Sale: sale, Token: token})
	if err != nil {
		return api.Sale{}, err
	}
	defer client.Close()
	told, err := client.Status(ctx)
	var unexpected *api.UnexpectedError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", serverTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		err = syscall.ECONNREFUSED
	case !errors.As(err, &unexpected):
	case unexpected.StatusCode == http.StatusUnauthorized:
		err = errors.New(unauthorized(token))
	default:
		err = fmt.Errorf("it answers %s, which is not what salectl serve would say", unexpected.Status)
	}
	return told, err
}

// unauthorized says what is wrong with the token that a server has refused.
func unauthorized(token string) string {
	if token == "" {
		return "the bearer token is missing: name its file with --token-file"
	}
	return "the bearer token is wrong: check the file that --token-file names"
}
