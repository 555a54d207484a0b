package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/quorum"
	"salectl/cli/lock"
	"salectl/spec"
)

type lockBreakOptions struct {
	source
	yes bool
	id  lock.ID
}

func (p *program) lockBreakCommand() *urfave.Command {
	return &urfave.Command{
		Name: "break", Usage: "take a lock from its holder", ArgsUsage: "NAME",
		Description: "NAME is a named lock, or SALE/SHARD for the lease of a shard. Asks for confirmation, " +
			"then removes from each lock node exactly the value that was shown: a lock that was " +
			"renewed, or acquired by another process, in the meantime remains. A live holder notices " +
			"that it has lost the lock: 'salectl lock run' ends its command, serve stops selling. A " +
			"live holder also renews the lock while the question is open; --yes does not wait for an " +
			"answer, and takes it.\n\n" +
			"Exit codes: 1 the lock is not held, 3 not confirmed, 5 it was acquired or renewed in the meantime, 6 it " +
			"may still be held on lock nodes that did not answer.",
		Flags: salesFlags(yesFlag(), jsonFlag()),
		Action: actionUpTo(1, func(f *flags) lockBreakOptions {
			o := lockBreakOptions{source: parseSource(f), yes: f.on("yes")}
			ifNone := fmt.Sprintf("name the lock to break; 'salectl lock list%s' shows those that are held", o.filesGiven())
			if name := f.argument(ifNone); name != "" {
				o.id = f.lockID(name)
			}
			return o
		}, p.lockBreak),
	}
}

func (p *program) lockBreak(ctx context.Context, o lockBreakOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	uid := ""
	if o.id.Name == "" {
		at := slices.IndexFunc(sales, func(s spec.Sale) bool { return s.Name == o.id.Sale })
		if at < 0 {
			return &usageError{"salectl lock break", fmt.Sprintf("no sale named %s is in the files", o.id.Sale)}
		}
		sales = sales[at : at+1]
		err := p.withStore(sales[0], func(store *backends.Store) (err error) {
			if uid, err = readUID(ctx, store, sales[0].Name); err != nil {
				return fmt.Errorf("which lease is that of %s: %w", o.id, readError(ctx, err))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if uid == "" {
			return fmt.Errorf("%s: %w: %s was never applied", o.id, lock.ErrNotHeld, o.id.Sale)
		}
	}
	return p.withNodes("salectl lock break", sales, func(nodes []quorum.Node) error {
		return p.breakLock(ctx, o, o.id.Key(uid), nodes)
	})
}

// breakLock shows the holder of a key, prompts, and removes exactly that holder.
func (p *program) breakLock(ctx context.Context, o lockBreakOptions, key string, nodes []quorum.Node) error {
	only := func(found string) (lock.ID, bool) { return o.id, found == key }
	read := lock.Read(ctx, nodes, key)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	seen := lock.Held(read, only)
	quiet := lock.Silent(read)
	p.warn(lock.Faults(read))
	if len(seen) == 0 {
		switch len(quiet) {
		case 0:
		case len(nodes):
			return fmt.Errorf("%s: no lock node answers: %s", o.id, strings.Join(quiet, "; "))
		default:
			return fmt.Errorf("%s: %w on the lock nodes that answer; %s", o.id, lock.ErrNotHeld, strings.Join(quiet, "; "))
		}
		return fmt.Errorf("%s: %w", o.id, lock.ErrNotHeld)
	}
	for _, lock := range seen {
		p.logf("%s", seenText(lock, len(nodes)))
	}
	p.warn(quiet)
	if err := p.confirm(ctx, fmt.Sprintf("Break %s?", o.id), o.yes, o.json); err != nil {
		return err
	}
	r := lock.Break(ctx, nodes, o.id, key, seen, !o.yes)
	pick(o.json, p.brokenText, p.brokenJSON)(r)
	return brokenError(r)
}

// brokenError returns the error of a lock that is not broken, with its remedy.
func brokenError(r lock.Broken) error {
	remedy, err := r.Err()
	if remedy != "" {
		return advised{err.Error(), remedy, err}
	}
	return err
}

// seenText describes the holder of a lock as it was read.
func seenText(lock lock.HeldBy, nodes int) string {
	text := fmt.Sprintf("%s: %s has it on %s", lock.ID, lock.Holder, whereText(lock.Nodes, nodes, count(nodes, "lock node")))
	if age := lock.HeartbeatAgeSeconds; age != nil {
		text += fmt.Sprintf(", renewed %.1f s ago", *age)
	}
	return text
}

func (p *program) brokenText(r lock.Broken) {
	c := p.colours(p.out)
	if len(r.Removed) > 0 {
		var where []string
		for _, b := range r.Removed {
			where = append(where, b.Node)
		}
		fmt.Fprintf(p.out, "%s %s on %s of %s: %s\n", c.Green("Removed"), r.ID,
			grouped(len(r.Removed)), count(r.Nodes, "lock node"), strings.Join(where, ", "))
	} else {
		fmt.Fprintf(p.out, "Nothing of %s was removed.\n", r.ID)
	}
	for _, left := range slices.Concat(r.Changed, r.Failed) {
		fmt.Fprintf(p.out, "  %s lock node %s: %s%s\n", c.Yellow("!"), left.Node, left.Now, left.Error)
	}
}

// lockBreakLine is the JSON of lock break.
type lockBreakLine struct {
	lock.Broken
	Done   bool   `json:"broken"`          // the previous holder no longer has the lock
	Error  string `json:"error,omitempty"` // why the lock is not broken
	Remedy string `json:"remedy,omitempty"`
}

func (p *program) brokenJSON(r lock.Broken) {
	line := lockBreakLine{Broken: r, Done: true}
	if err := brokenError(r); err != nil {
		line.Done = false
		line.Error, line.Remedy = split(err)
	}
	p.emit(line)
}
