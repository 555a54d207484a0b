package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// What operators ask a process at its admin address.

// DrainRequest is the body of POST /v1/sales/{sale}/drain, whose answer, like that of a GET,
// is the Share that the process has then.
type DrainRequest struct {
	Undo bool `json:"undo,omitempty"` // it is to take its share again
}

// Share is how much of a sale a process has.
type Share struct {
	Sale     string `json:"sale"`
	State    string `json:"state"`    // as in Process
	Shards   int    `json:"shards"`   // that it owns
	Assigned int    `json:"assigned"` // shards that are assigned to it
	// Takers reports whether another process that it reaches is to own shards.
	Takers bool `json:"takers"`
}

// MoveRequest is the body of POST /v1/sales/{sale}/shards/{shard}/move, whose answer, like
// that of a GET, is the ShardOwner of the shard then.
type MoveRequest struct {
	Any bool `json:"any,omitempty"` // the shard is to be wherever it would be without moves
}

// ShardOwner is the owner of a shard, and the process that the shard is assigned to, as one process
// knows them.
type ShardOwner struct {
	Sale     string `json:"sale"`
	Shard    int    `json:"shard"`
	Owner    string `json:"owner,omitempty"`    // an address; "": it is not known
	Assigned string `json:"assigned,omitempty"` // an address; "": no process can
	Here     bool   `json:"here"`               // the process that answers owns the shard, and serves it
	Moved    string `json:"moved,omitempty"`    // the address of the process that an operator has moved it to
	Pinned   bool   `json:"pinned"`             // which is the one that answers
}

// Share asks the first server, an admin address, how much of the sale its process has.
// Errors are those of Status.
func (c *Client) Share(ctx context.Context) (Share, error) {
	return c.share(ctx, http.MethodGet, nil)
}

// Drain has the process at the first server, an admin address, give its shards to others
// and own none, or with undo take its share again. It returns before that is done.
func (c *Client) Drain(ctx context.Context, undo bool) (Share, error) {
	return c.share(ctx, http.MethodPost, DrainRequest{undo})
}

func (c *Client) share(ctx context.Context, method string, body any) (s Share, err error) {
	err = c.operate(ctx, method, salePath(c.cfg.Sale)+"/drain", body, &s, func() bool { return s.Sale == c.cfg.Sale })
	return s, err
}

// ShardOwner queries the first server, an admin address, for the owner of a shard.
func (c *Client) ShardOwner(ctx context.Context, shard int) (ShardOwner, error) {
	return c.shardOwner(ctx, http.MethodGet, shard, nil)
}

// Move has a shard moved to the process at the first server, an admin address, or with
// anyone to whichever would own it without moves. It returns before that is done.
func (c *Client) Move(ctx context.Context, shard int, anyone bool) (ShardOwner, error) {
	return c.shardOwner(ctx, http.MethodPost, shard, MoveRequest{anyone})
}

func (c *Client) shardOwner(ctx context.Context, method string, shard int, body any) (w ShardOwner, err error) {
	path := salePath(c.cfg.Sale) + "/shards/" + strconv.Itoa(shard) + "/move"
	err = c.operate(ctx, method, path, body, &w, func() bool { return w.Sale == c.cfg.Sale && w.Shard == shard })
	return w, err
}

// operate asks the first server once.
func (c *Client) operate(ctx context.Context, method, path string, body, into any, told func() bool) error {
	base := c.servers[0].base
	request, err := http.NewRequestWithContext(ctx, method, base+path, nil)
	if err != nil {
		return err
	}
	request.Header = c.header.Clone()
	if body != nil { // a GET has none, which proxies may refuse
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		request.Header.Set("Content-Type", TypeJSON)
	}
	response, said, err := c.do(request)
	if err != nil {
		return err
	}
	defer buffers.Put(said)
	if response.StatusCode == http.StatusOK && json.Unmarshal(said.Bytes(), into) == nil && told() {
		return nil
	}
	problem := new(Problem)
	if json.Unmarshal(said.Bytes(), problem) == nil && (problem.Outcome != "" || response.StatusCode == http.StatusConflict) {
		return problem
	}
	return unexpected(base, response, said)
}

// SalesAt asks the first server, an admin address, which sales it serves.
func (c *Client) SalesAt(ctx context.Context) (names []string, err error) {
	ready, err := c.Ready(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range ready.Sales {
		names = append(names, s.Sale)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s serves no sale", c.servers[0].base)
	}
	return names, nil
}
