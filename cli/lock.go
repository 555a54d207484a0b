package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends/quorum"
	"salectl/cli/lock"
	"salectl/spec"
)

func (p *program) lockCommand() *urfave.Command {
	return group("lock", groupLook, "list and break locks, and run commands under a lock",
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
