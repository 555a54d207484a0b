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

// Permitted returns an error if so many lock nodes deny this process the right to write that the
// others are no majority. Such a process could never own a shard of the run. Permitted removes a
// random member from the run's list on each node, which needs that right and changes nothing. A
// node that does not answer may do so later. Permitted returns as soon as the result is certain,
// after shard.CallTimeout at most.
func Permitted(ctx context.Context, nodes []quorum.Node, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, shard.CallTimeout)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	errs, replied := make([]error, len(nodes)), make(chan int, len(nodes))
	for i, n := range nodes {
		running.Go(func() {
			_, errs[i] = n.Announce(ctx, registryOf(uid), quorum.Member{ID: quorum.RandomToken()}, 0)
			replied <- i
		})
	}
	others := 0
	for range nodes {
		if !errors.Is(errs[<-replied], fs.ErrPermission) {
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
