package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/cli/lock"
	"salectl/cli/terminal"
	"salectl/spec"
)

func (p *program) lockCommand() *urfave.Command {
	return group("lock", groupInspect, "list and break locks, and run commands under a lock",
		"The locks are those on the lock nodes that sale files name: the leases of shards, as "+
			"SALE/SHARD, and named locks, which belong to no sale and need neither apply nor HBase.",
		p.lockListCommand(), p.lockBreakCommand(), p.lockRunCommand())
}

// lockName matches the name of a named lock.
var lockName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// lockName checks the name of a named lock.
func (f *flags) lockName(text string) string {
	if !lockName.MatchString(text) {
		f.refuse("a lock's name has at most 128 letters, digits and . _ -, not %q", text)
	}
	return text
}

// lockID parses the name of any lock.
func (f *flags) lockID(text string) lock.ID {
	sale, number, lease := strings.Cut(text, "/")
	if !lease {
		return lock.ID{Name: f.lockName(text)}
	}
	shard, err := strconv.Atoi(number)
	if err != nil || shard < 0 || number != strconv.Itoa(shard) || sale == "" {
		f.refuse("the lease of a shard is named SALE/SHARD, as in tickets/0, not %q", text)
	}
	return lock.ID{Sale: sale, Shard: shard}
}

// withNodes opens the lock nodes shared by all the sales while use runs.
func (d drivers) withNodes(command string, sales []spec.Sale, use func([]quorum.Node) error) error {
	for _, sale := range sales[1:] {
		if !sameLocks(sale, sales[0]) {
			return &usageError{command, fmt.Sprintf("-f names several sets of lock nodes, as those of %s and of %s: name one sale's file", sales[0].Name, sale.Name)}
		}
	}
	nodes, closeNodes, err := d.nodes(sales[0])
	if err != nil {
		return err
	}
	defer closeNodes() // an error cannot affect the result any more
	return use(nodes)
}

// sameLocks reports whether two sales have the same set of lock nodes.
func sameLocks(a, b spec.Sale) bool {
	one, err := a.Locks()
	other, err2 := b.Locks()
	return err == nil && err2 == nil && one.Key() == other.Key()
}

func (p *program) lockListCommand() *urfave.Command {
	return &urfave.Command{
		Name: "list", Usage: "list the locks and their holders",
		Description: "Lists the named locks on the lock nodes of each sale, and the leases of its shards as " +
			"SALE/SHARD. It changes nothing. Unreachable servers are part of the answer: without the " +
			"ledger it is unknown which leases belong to the sale, and they are only counted. The " +
			"command fails if no lock node answers.",
		Flags:  salesFlags(jsonFlag()),
		Action: action(parseSource, p.lockList),
	}
}

func (p *program) lockList(ctx context.Context, from source) error {
	show := pick(from.json, p.lockListText, func(l lockList) { p.emit(l) })
	return p.forEach(ctx, from, func(ctx context.Context, sale spec.Sale) error {
		var uid string
		away := p.withStore(sale, func(store *backends.Store) (err error) {
			uid, err = readUID(ctx, store, sale.Name)
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return p.withNodes("salectl lock list", []spec.Sale{sale}, func(nodes []quorum.Node) error {
			read := lock.Read(ctx, nodes, spec.KeyPrefix)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			list := newLockList(sale.Name, uid, away, read)
			show(list)
			if len(lock.Silent(read)) == len(read) {
				err := fmt.Errorf("no lock node of %s answers: %w", sale.Name, read[0].Err)
				p.report(err)
				return shown{err} // the list is its JSON
			}
			return nil
		})
	})
}

// lockList is the output of lock list for one sale.
type lockList struct {
	Sale     string          `json:"sale"`
	UID      string          `json:"uid,omitempty"` // "" if the sale was never applied, or the uid is unknown
	Locks    []lock.HeldBy   `json:"locks"`
	Unnamed  []unnamedLeases `json:"unnamed"`
	Nodes    []lock.Node     `json:"nodes"`
	Warnings []string        `json:"warnings"` // clauses
}

// unnamedLeases are leases of shards of an unknown sale.
type unnamedLeases struct {
	UID    string `json:"uid"`
	Shards int    `json:"shards"`
}

// newLockList combines the replies of the nodes. away is why the uid is unknown.
func newLockList(sale, uid string, away error, read []lock.Node) lockList {
	l := lockList{Sale: sale, UID: uid, Locks: lock.Held(read, lock.NamesOf(sale, uid)), Unnamed: []unnamedLeases{}, Nodes: read}
	quiet := lock.Silent(read)
	l.Warnings = append(append([]string{}, quiet...), lock.Faults(read)...)
	if most := len(read)/2 + 1; len(read)-len(quiet) < most {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%d of %s answered: the list may lack locks, or show held ones as free",
			len(read)-len(quiet), count(len(read), "lock node")))
	}
	switch {
	case away != nil:
		l.Unnamed = unnamed(read)
		what := "it is unknown which leases of shards are its own"
		if len(l.Unnamed) == 0 {
			what = "no lock node that answered has leases of shards"
		}
		l.Warnings = append(l.Warnings, fmt.Sprintf("the ledger of %s cannot be read (%s): %s", sale, ledgerWords(away), what))
	case uid == "":
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s was never applied, so its shards have no leases", sale))
	}
	return l
}

// ledgerWords describes why the ledger cannot be read.
func ledgerWords(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// unnamed counts the shards with leases by uid.
func unnamed(read []lock.Node) []unnamedLeases {
	shards := map[string]map[int]bool{}
	for _, n := range read {
		for _, h := range n.Holdings {
			if uid, shard, ok := spec.ParseLeaseKey(h.Key); ok {
				if shards[uid] == nil {
					shards[uid] = map[int]bool{}
				}
				shards[uid][shard] = true
			}
		}
	}
	all := []unnamedLeases{}
	for _, uid := range slices.Sorted(maps.Keys(shards)) {
		all = append(all, unnamedLeases{uid, len(shards[uid])})
	}
	return all
}

// ledgerTimeout bounds a read of the ledger that only supplies additional information, such as the
// uid of a sale, which identifies its leases.
const ledgerTimeout = 5 * time.Second

// readUID reads the uid of a sale's leases; "" if the sale was never applied.
func readUID(ctx context.Context, store *backends.Store, sale string) (uid string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	log := ledger.NewSale(spec.SaleLog(sale))
	_, err = ledger.Load(ctx, store.Logs, spec.SaleLog(sale), log)
	return log.UID(), err
}

func (p *program) lockListText(l lockList) {
	c := p.colours(p.out)
	p.gap()
	fmt.Fprintf(p.out, "%s: %s\n", c.Bold(l.Sale), count(len(l.Locks), "lock"))
	terminal.WriteWarnings(p.out, c, l.Warnings, true)
	for _, u := range l.Unnamed {
		fmt.Fprintf(p.out, "  leases of %s are there under the uid %s\n", count(u.Shards, "shard"), u.UID)
	}
	if len(l.Locks) > 0 {
		fmt.Fprintln(p.out)
		locks := terminal.NewTable("lock", "holder", "nodes", ">left", ">heartbeat", "")
		for _, lock := range l.Locks {
			left, state := fmt.Sprintf("%.1f s", lock.LeftSeconds), ""
			if !lock.Held {
				left, state = "-", "not held: too few lock nodes have it"
			}
			beat := "-"
			if age := lock.HeartbeatAgeSeconds; age != nil {
				beat = fmt.Sprintf("%.1f s ago", *age)
			}
			locks.Row(lock.Name, lock.Holder, whereText(lock.Nodes, len(l.Nodes), fmt.Sprint(len(l.Nodes))), left, beat, state)
		}
		locks.Write(p.out, "  ", c.Dim)
	}
	fmt.Fprintln(p.out)
	nodes := terminal.NewTable("lock node", ">keys", "state")
	for _, n := range l.Nodes {
		nodes.Row(n.Name, len(n.Holdings), lockNodeState(n))
	}
	nodes.Write(p.out, "  ", c.Dim)
}

// whereText lists the nodes that have a lock. all is their number with its noun.
func whereText(on []lock.OnNode, nodes int, all string) string {
	text := fmt.Sprintf("%d of %s", len(on), all)
	if len(on) == nodes {
		return text
	}
	names := make([]string, len(on))
	for i := range on {
		names[i] = on[i].Name
	}
	return text + ": " + strings.Join(names, ", ")
}

func lockNodeState(n lock.Node) string {
	switch {
	case !n.Up:
		return "down now"
	case !n.VotesFrom.IsZero():
		return "up; abstains from named locks until " + n.VotesFrom.Format(time.RFC3339)
	}
	return "up"
}
