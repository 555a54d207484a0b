package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// PositionHeader is the request header with the position after which a feed continues.
const PositionHeader = "Last-Event-ID"

// EventResolved is the type of the event that ends a batch.
const EventResolved = "salectl.resolved"

// Following selects the part of a sale's feed to receive.
type Following struct {
	// From is the position to continue after, from Events.Position, or "now"; "": the
	// beginning of the run.
	From    string
	Commits bool // include the stored bytes of the ledger
}

// Events is a batch. A consumer that stores its results and Position in one transaction, and
// continues after that Position, processes each event once.
type Events struct {
	Events   []Event // the last is of type EventResolved
	Position string  // all events before it were received
	Ended    bool    // final: the sale is destroyed
}

// Event is one event of the ledger.
type Event struct {
	Type string
	JSON json.RawMessage // the whole event in CloudEvents 1.0 format; docs/feed.md lists its members
}

// silence is the time without data after which a server counts as lost: a live one sends
// something every ten seconds.
const silence = 35 * time.Second

// Follow yields the events of the sale's ledger as they occur, until the sale is destroyed,
// ctx ends, or the loop breaks. If a server fails, it continues at the next one after the last
// batch, and retries while none answers. An error is the last value. It is a *Problem if a
// server reports that the feed cannot continue: status 409 for a position of another ledger,
// 410 if the rest is deleted. It is an *UnexpectedError if the server does not admit the
// client, else the cause of ctx.
func (c *Client) Follow(ctx context.Context, f Following) iter.Seq2[Events, error] {
	return func(yield func(Events, error) bool) {
		follows := &following{Client: c, Following: f, yield: yield}
		for at, silent := 0, 0; ; at++ {
			before := follows.batches
			err := follows.receive(ctx, c.servers[at%len(c.servers)].base)
			foreign, _ := errors.AsType[*UnexpectedError](err)
			switch {
			case errors.Is(err, errFollowed):
				return
			case ctx.Err() != nil:
				yield(Events{}, context.Cause(ctx))
				return
			case foreign != nil && foreign.passing():
			case foreign != nil, errors.As(err, new(*Problem)):
				yield(Events{}, err)
				return
			}
			if silent++; follows.batches > before {
				silent = 0
			}
			wait := min(firstBackoff<<min(silent, 10), maxBackoff)
			if foreign != nil {
				wait = max(wait, foreign.RetryAfter)
			}
			if c.cfg.MaxWait > 0 {
				wait = min(wait, c.cfg.MaxWait)
			}
			if err := c.cfg.Sleep(ctx, time.Duration(float64(wait)*(.5+c.cfg.Jitter()/2))); err != nil {
				yield(Events{}, err)
				return
			}
		}
	}
}

// errFollowed reports that there are no more events, or that the loop has ended.
var errFollowed = errors.New("the feed has ended")

// following is a feed in progress.
type following struct {
	*Client
	Following
	yield   func(Events, error) bool
	batches int // number of batches yielded
}

// receive yields the events of one server until that ends.
func (f *following) receive(ctx context.Context, base string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(silence, cancel)
	defer silent.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+EventsPath(f.cfg.Sale), nil)
	if err != nil {
		return err
	}
	request.Header = f.header.Clone()
	request.Header.Set("Accept", TypeEvents)
	query := url.Values{}
	switch {
	case f.From == "now":
		query.Set("from", f.From)
	case f.From != "":
		request.Header.Set(PositionHeader, f.From)
	}
	if f.Commits {
		query.Set("commits", "true")
	}
	request.URL.RawQuery = query.Encode()
	client := f.http
	client.Timeout = 0 // it would bound the whole answer
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNoContent:
		return errFollowed
	case response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), TypeEvents):
		return f.read(response, func() { silent.Reset(silence) })
	}
	return refusedFeed(base, response)
}

// refusedFeed returns the error of a server that sends no events.
func refusedFeed(base string, r *http.Response) error {
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(nil, r.Body, maxAnswer)); err != nil {
		return err
	}
	problem := new(Problem)
	known := json.Unmarshal(body.Bytes(), problem) == nil && strings.HasPrefix(r.Header.Get("Content-Type"), TypeProblem)
	if known && r.StatusCode < 500 && r.StatusCode != http.StatusUnauthorized && r.StatusCode != http.StatusForbidden {
		return problem
	}
	return unexpected(base, r, &body)
}

// read yields server-sent events. Only an event with an id ends a batch.
func (f *following) read(r *http.Response, received func()) error {
	lines := bufio.NewReaderSize(r.Body, 1<<16)
	var batch Events
	var event Event
	id := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err // an incomplete batch is received again
		}
		received()
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			event.Type = string(value)
		case "data":
			event.JSON = bytes.Clone(value)
		case "id":
			id = string(value)
		}
		if len(line) > 0 || event.JSON == nil {
			continue
		}
		batch.Events = append(batch.Events, event)
		event = Event{}
		if id == "" {
			continue
		}
		var last struct{ Data struct{ Ended bool } }
		if err := json.Unmarshal(batch.Events[len(batch.Events)-1].JSON, &last); err != nil {
			return fmt.Errorf("an event is no JSON: %w", err)
		}
		batch.Position, batch.Ended = id, last.Data.Ended
		f.From, f.batches = id, f.batches+1
		if !f.yield(batch, nil) || batch.Ended {
			return errFollowed
		}
		batch, id = Events{}, ""
	}
}
