package api

import (
	"context"
	"fmt"
	"net/http"
)

// Requests of operators to a process at its admin address.

// DrainRequest is the body of POST /v1/sales/{sale}/drain. The answer, as that of a GET, is
// the resulting Share.
type DrainRequest struct {
	Undo bool `json:"undo,omitempty"` // own shards again
}

// Share is the share of a process in a sale.
type Share struct {
	Sale     string `json:"sale"`
	State    string `json:"state"`    // as in Process
	Shards   int    `json:"shards"`   // owned by the process
	Assigned int    `json:"assigned"` // assigned to the process
	// HasTakers reports whether another reachable process may own shards.
	HasTakers bool `json:"takers"`
	// Unready is why the process cannot answer for every shard of the sale; "": it can.
	Unready string `json:"unready,omitempty"`
}

// Share queries the share of the process at the first server, an admin address. Errors are
// those of Status.
func (c *Client) Share(ctx context.Context) (Share, error) {
	return c.share(ctx, http.MethodGet, nil)
}

// Drain makes the process at the first server, an admin address, hand over its shards and own
// none, or with undo own its share again. It returns before that is done.
func (c *Client) Drain(ctx context.Context, undo bool) (Share, error) {
	return c.share(ctx, http.MethodPost, DrainRequest{undo})
}

func (c *Client) share(ctx context.Context, method string, body any) (s Share, err error) {
	base := c.servers[0].base
	response, reply, err := c.send(ctx, method, base+salePath(c.cfg.Sale)+"/drain", body)
	if err != nil {
		return s, err
	}
	err = decode(base, response, reply, &s, func() bool { return s.Sale == c.cfg.Sale })
	return s, err
}

// SalesAt returns the sales served at the first server, an admin address.
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
