package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/cli/terminal"
	"salectl/spec"
)

const (
	// defaultInterval is the time between two reads of a sale by status --watch.
	defaultInterval = 2 * time.Second
	leastInterval   = 100 * time.Millisecond
	// watchTimeout bounds each read. After half of it, the reports of the lock nodes and of
	// the process that serves the sale are shown instead.
	watchTimeout = 10 * time.Second
	// redrawn is the interval of drawing without a new reading: old readings show their age.
	redrawn = time.Second
)

// watch parses the flags of status --watch.
func (f *flags) watch(o *statusOptions) {
	for _, other := range []string{"wait-for", "exit-code"} {
		if f.c.IsSet(other) {
			f.refuse("--watch runs until Ctrl-C and exits with 0; %s is for a status that ends by itself", dashed(other))
		}
	}
	if o.interval = f.duration("interval", defaultInterval); o.interval < leastInterval {
		f.refuse("--interval must be at least %s, not %s", leastInterval, o.interval)
	}
	if o.timeout == 0 {
		o.timeout = watchTimeout
	}
}

// reading is the status of a sale at a time, or why it is unknown.
type reading struct {
	sale int // index of the sale
	view *saleStatus
	err  error
	at   time.Time // time of the read
}

// watchStatus reads the sales repeatedly until ctx ends, which is no error: Ctrl-C ends a
// watch. It shows errors in place of readings. Each sale is read in its own goroutine, so that
// one whose ledger is down does not delay the others.
func (p *program) watchStatus(ctx context.Context, o statusOptions, sales []spec.Sale) error {
	readings := make(chan reading)
	var readers sync.WaitGroup
	defer readers.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, sale := range sales {
		readers.Go(func() {
			for ctx.Err() == nil {
				r := p.readCurrent(ctx, o, sale)
				r.sale = i
				select {
				case readings <- r:
				case <-ctx.Done():
				}
				select {
				case <-time.After(o.interval):
				case <-ctx.Done():
				}
			}
		})
	}
	if p.draws(o) {
		return p.watchScreen(ctx, o, sales, readings)
	}
	return p.watchLines(ctx, o, sales, readings)
}

// draws reports whether status can draw on the terminal.
func (p *program) draws(o statusOptions) bool {
	kind, _ := p.env("TERM")
	return !o.json && kind != "dumb" && terminal.IsTerminal(p.out)
}

// readCurrent reads the current status of a sale. It opens the store and reads the credentials anew
// each time, so that it detects replaced files, and another server under the same name.
func (p *program) readCurrent(ctx context.Context, o statusOptions, sale spec.Sale) reading {
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	// Concurrent reads must not print between the lines of the view.
	quiet := &program{in: p.in, out: &terminal.Answer{W: io.Discard}, err: io.Discard, env: p.env, drivers: p.drivers, files: p.files, several: p.several}
	var r reading
	token, over, err := o.secrets.read()
	if err == nil {
		err = quiet.withStore(sale, func(store *backends.Store) (err error) {
			r.view, err = quiet.await(ctx, ctx, store, sale, statusClient{o.admin, token, over}, o)
			return err
		})
	}
	r.err = err
	r.at = time.Now()
	return r
}

// watchLines prints the status of a sale when it has changed: with JSON the line of status,
// otherwise a time and the text of status.
func (p *program) watchLines(ctx context.Context, o statusOptions, sales []spec.Sale, readings <-chan reading) error {
	last := make([]string, len(sales))
	for p.out.Err == nil {
		select {
		case <-ctx.Done():
			return nil
		case r := <-readings:
			if ctx.Err() != nil {
				return nil // the reading was cut short
			}
			key := r.key()
			if key == last[r.sale] {
				continue
			}
			last[r.sale] = key
			if !o.json {
				p.gap()
				fmt.Fprintf(p.out, "%s\n%s", clockText(r.at), p.readingText(r, sales[r.sale], o.all))
				continue
			}
			if r.view != nil {
				p.emit(r.view)
				p.report(r.err)
			} else {
				p.failed(sales[r.sale].Name, true, r.err)
			}
		}
	}
	return nil
}

// watchScreen draws all sales at the same place, and finally prints the last screen.
func (p *program) watchScreen(ctx context.Context, o statusOptions, sales []spec.Sale, readings <-chan reading) error {
	s := &terminal.Screen{To: p.out.W}
	// The end of the last read may take long, so this does not wait for it.
	stop := context.AfterFunc(ctx, s.End)
	defer stop()
	last := make([]reading, len(sales))
	tick := time.NewTicker(redrawn)
	defer tick.Stop()
	for {
		if err := s.Draw(p.watchText(o, sales, last)); err != nil {
			return fmt.Errorf("drawing on the terminal: %w", err)
		}
		select {
		case <-ctx.Done():
			s.End()
			for i, r := range last {
				if i > 0 {
					fmt.Fprintln(p.out)
				}
				fmt.Fprintf(p.out, "%s\n%s", clockText(r.at), p.readingText(r, sales[i], o.all))
			}
			return nil
		case r := <-readings:
			last[r.sale] = r
		case <-tick.C:
		}
	}
}

// watchText returns the content of the screen.
func (p *program) watchText(o statusOptions, sales []spec.Sale, last []reading) string {
	c := p.colours(p.out)
	var b strings.Builder
	now := time.Now()
	fmt.Fprintf(&b, "%s\n", c.Dim(fmt.Sprintf("Every %s: salectl status, %s; Ctrl-C ends it", o.interval, clockText(now))))
	for i, r := range last {
		b.WriteString("\n")
		b.WriteString(p.readingText(r, sales[i], o.all))
		if age := now.Sub(r.at); !r.at.IsZero() && age > o.interval+redrawn {
			fmt.Fprintf(&b, "  %s this state is %s old: the next read is still running\n", c.Yellow("!"), age.Round(time.Second))
		}
	}
	return b.String()
}

// readingText returns the text of status for one reading.
func (p *program) readingText(r reading, sale spec.Sale, all bool) string {
	f := &terminal.Frame{On: p.out}
	onto := &program{in: p.in, out: &terminal.Answer{W: f}, err: f, env: p.env, drivers: p.drivers, files: p.files, several: p.several}
	switch {
	case r.at.IsZero():
		return fmt.Sprintf("%s: not read yet\n", p.colours(p.out).Bold(sale.Name))
	case r.view == nil:
		onto.failed(sale.Name, false, r.err)
	default:
		onto.statusText(r.view, all)
		onto.report(r.err)
	}
	return f.String()
}

// key is equal for two readings without an event between them. It ignores leases, which run
// down and are renewed, and clocks and loads, which are measured each time.
func (r reading) key() string {
	state := struct {
		Status *saleStatus
		Err    string
	}{}
	if r.err != nil {
		state.Err = r.err.Error()
	}
	if r.view != nil {
		view, status := *r.view, *r.view.Status
		view.Status, view.ReadAt, state.Status = &status, "", &view
		status.Shards, status.Nodes = slices.Clone(status.Shards), slices.Clone(status.Nodes)
		for i := range status.Shards {
			shard := &status.Shards[i]
			shard.LeaseLeftSeconds = math.Ceil(min(shard.LeaseLeftSeconds, 1))
			if is := shard.Server; is != nil {
				shard.Server = &api.Shard{State: is.State, Owner: is.Owner, Busy: is.Busy, Since: is.Since, Error: is.Error}
			}
		}
		for i := range status.Nodes {
			status.Nodes[i].ClockOffSeconds = 0
		}
		view.Processes = slices.Clone(view.Processes)
		for i := range view.Processes {
			view.Processes[i].Requests, view.Processes[i].Forwarded = nil, nil
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // emit encodes the same type
	}
	return string(text)
}
