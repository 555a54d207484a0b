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

// PositionHeader is the request header that has the position behind which a feed is to go on.
const PositionHeader = "Last-Event-ID"

// EventResolved is the type of the event that ends what is told together.
const EventResolved = "salectl.resolved"

// Following says what of a sale's feed a Client is to be told.
type Following struct {
	// From is the position to go on behind, as Events had it, or "now"; "": the beginning of
	// the run.
	From    string
	Commits bool // the stored bytes of the ledger, too
}

// Events is what was told together. Whoever writes what it came to and Position in one
// transaction, and goes on behind that, acts on each event once.
type Events struct {
	Events   []Event // the last one is of type EventResolved
	Position string  // all that stands before it was told
	Ended    bool    // nothing will ever follow: the sale is destroyed
}

// Event is one thing that the ledger says.
type Event struct {
	Type string
	JSON json.RawMessage // all of it, in the form of CloudEvents 1.0: docs/feed.md has its members
}

// silence is for how long a server may say nothing: one that lives says something every ten
// seconds.
const silence = 35 * time.Second

// Follow tells all that the ledger says of the sale, as it comes, until the sale is destroyed, ctx
// ends, or the loop over it does. It asks the servers one after the other, goes on behind what it
// has told where one goes away, and tries again for as long as none answers. An error is the
// last thing that it tells: a *Problem where a server says that there is nothing to go on with,
// such as with status 409 of a position that is not of this sale's ledger, and 410 when the
// rest is deleted; an *UnexpectedError where the server does not let the client in; else the
// cause of ctx.
func (c *Client) Follow(ctx context.Context, f Following) iter.Seq2[Events, error] {
	return func(yield func(Events, error) bool) {
		follows := &following{Client: c, Following: f, yield: yield}
		for at, silent := 0, 0; ; at++ {
			told := follows.told
			err := follows.ask(ctx, c.servers[at%len(c.servers)].base)
			var foreign *UnexpectedError
			switch {
			case errors.Is(err, errFollowed):
				return
			case ctx.Err() != nil:
				yield(Events{}, context.Cause(ctx))
				return
			case errors.As(err, &foreign) && foreign.passing():
			case foreign != nil, errors.As(err, new(*Problem)):
				yield(Events{}, err)
				return
			}
			if silent++; follows.told > told {
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

// errFollowed says that there is nothing more to be told, or that nobody wants to be told more.
var errFollowed = errors.New("the feed has ended")

// following is a feed that is followed.
type following struct {
	*Client
	Following
	yield func(Events, error) bool
	told  int // how often something was told
}

// ask has one server tell what comes, until it tells no more.
func (f *following) ask(ctx context.Context, base string) error {
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
	client.Timeout = 0 // of the whole answer
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

// refusedFeed says why a server tells nothing.
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

// read tells what a server sends as server-sent events, of which only what has an id ends what
// is told together.
func (f *following) read(r *http.Response, heard func()) error {
	lines := bufio.NewReaderSize(r.Body, 1<<16)
	var batch Events
	var event Event
	id := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err // what was not told to its end is told again
		}
		heard()
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
		f.From, f.told = id, f.told+1
		if !f.yield(batch, nil) || batch.Ended {
			return errFollowed
		}
		batch, id = Events{}, ""
	}
}
