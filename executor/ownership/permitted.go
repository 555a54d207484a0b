package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// Permitted returns an error if so many lock nodes do not permit a process to be one of a
// run of a sale that the others are no majority: it could never own a shard. Each node is
// asked to take the process out of a room in which it is not, which needs the right to write
// and changes nothing. A node that does not answer may do so later. It returns as soon as it
// is sure, after shard.CallTimeout at most.
func Permitted(ctx context.Context, nodes []quorum.Node, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, shard.CallTimeout)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	type said struct {
		node int
		err  error
	}
	answers := make(chan said, len(nodes))
	for i, n := range nodes {
		asked.Go(func() {
			_, err := n.Meet(ctx, roomOf(uid), quorum.Member{ID: quorum.RandomToken()}, 0)
			answers <- said{i, err}
		})
	}
	errs, others := make([]error, len(nodes)), 0
	for range nodes {
		a := <-answers
		errs[a.node] = a.err
		if !errors.Is(a.err, fs.ErrPermission) {
			others++
		}
		if 2*others > len(nodes) {
			return nil
		}
	}
	var all []string
	for i, err := range errs {
		if err != nil {
			words, _, _ := strings.Cut(err.Error(), " (")
			all = append(all, fmt.Sprintf("%s: %s", nodes[i].Name(), strings.TrimPrefix(words, "lock node "+nodes[i].Name()+": ")))
		}
	}
	return fmt.Errorf("too few lock nodes permit this process to take leases: %s", strings.Join(all, "; "))
}
