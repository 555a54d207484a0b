package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"salectl/planner"
)

// serverTimeout is how long the process that serves a sale may take to say how
// it goes. Its word is a help and no more.
const serverTimeout = time.Second

// askServer adds to a status what only the process that serves the sale can
// know: since when a node is down or a shard stalls. Whoever reads once sees no
// more than now.
func askServer(ctx context.Context, s *planner.Status, token string) {
	address := serverOf(s)
	if address == "" {
		return
	}
	s.Server = &planner.ServerStatus{Address: address}
	told, err := readServer(ctx, address, s.Sale, token)
	if err != nil {
		s.Server.Error = err.Error()
	}
	for _, n := range told.Nodes {
		for i := range s.Nodes {
			if s.Nodes[i].Name == n.Name {
				s.Nodes[i].Server = &planner.Seen{Up: n.Up, Since: sinceText(n.Since), Error: n.Error}
			}
		}
	}
	for _, shard := range told.Shards {
		if shard.Shard >= 0 && shard.Shard < len(s.Shards) {
			s.Shards[shard.Shard].Stalled = &planner.Seen{Since: sinceText(shard.Since), Error: shard.Error}
		}
	}
}

// serverOf is where to ask: at the owner, or where no majority of nodes names
// one, at whoever owned a shard last.
func serverOf(s *planner.Status) string {
	if s.Owner != "" {
		return s.Owner
	}
	for _, shard := range s.Shards {
		if shard.Owner != "" {
			return shard.Owner
		}
	}
	return ""
}

// told is the part of a server's answer about a sale that matters here.
type told struct {
	Sale  string `json:"sale"`
	Nodes []struct {
		Name  string    `json:"name"`
		Up    bool      `json:"up"`
		Since time.Time `json:"since"`
		Error string    `json:"error"`
	} `json:"nodes"`
	Shards []struct { // those that stall
		Shard int       `json:"shard"`
		Since time.Time `json:"since"`
		Error string    `json:"error"`
	} `json:"shards"`

	// Of a process that is not in charge.
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// readServer asks one process. A process that is not in charge may tell of the
// nodes all the same: that comes beside an error.
func readServer(ctx context.Context, address, sale, token string) (answer told, err error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	where := url.URL{Scheme: "http", Host: address, Path: "/v1/sales/" + sale}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return answer, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{
		// Nobody else is to be asked, and nobody else gets the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return answer, fmt.Errorf("no answer within %s", serverTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer, syscall.ECONNREFUSED
	case err != nil:
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return answer, err
	}
	return readTold(response, body, sale, token)
}

func readTold(response *http.Response, body []byte, sale, token string) (answer told, err error) {
	err = json.Unmarshal(body, &answer)
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return told{}, errors.New(unauthorized(token))
	case err == nil && answer.Outcome != "":
		return answer, fmt.Errorf("%s: %s", answer.Outcome, answer.Detail)
	case err != nil || response.StatusCode != http.StatusOK || answer.Sale != sale:
		return told{}, fmt.Errorf("it answers %s, which is not what salectl serve would say", response.Status)
	}
	return answer, nil
}

// unauthorized says what is wrong with the token that a server has refused.
func unauthorized(token string) string {
	if token == "" {
		return "the bearer token is missing: name its file with --token-file"
	}
	return "the bearer token is wrong: check the file that --token-file names"
}
