package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"salectl/backends/ledger"
	"salectl/executor/reload"
	"salectl/spec"
)

// keeper rereads the sale files of a server and adapts the server to them.
type keeper struct {
	*reload.Keeper
	s    *server
	p    *program
	from source
	hup  chan os.Signal // requests a read

	serve func(hosted)      // begins to serve a sale
	drop  func(sale string) // see reload.Server, as for the next field
	lack  func(map[string]reload.Lack)
}

// lookForSales is the interval at which the files of a folder are read.
const lookForSales = time.Second

// newKeeper returns a keeper that handles SIGHUP from now on, so that it no longer ends the
// process.
func (p *program) newKeeper(s *server, from source) *keeper {
	k := &keeper{s: s, p: p, from: from, hup: make(chan os.Signal, 1)}
	k.Keeper = reload.New(k, s.log, func(err error) reload.Lack {
		what, _ := explain(err)
		none, absent := errors.AsType[*absent](err)
		return reload.Lack{Why: what, Absent: absent, Over: absent && none.over}
	})
	signal.Notify(k.hup, syscall.SIGHUP)
	return k
}

// watches reports whether files are reread periodically: those of a folder are.
func (k *keeper) watches() bool { return slices.ContainsFunc(k.from.files, isFolder) }

// keep reads the files until ctx ends: at each SIGHUP, and once a second if a folder was
// named.
func (k *keeper) keep(ctx context.Context) {
	defer signal.Stop(k.hup)
	var every <-chan time.Time
	if k.watches() {
		ticker := time.NewTicker(lookForSales)
		defer ticker.Stop()
		every = ticker.C
	}
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-every:
		case <-k.hup:
			k.s.log.Info("the sale files are read again, since SIGHUP came")
			asked = true
		}
		sales, err := k.read()
		k.Update(ctx, sales, err, asked)
	}
}

// read reads the files as load does, without reporting problems.
func (k *keeper) read() ([]spec.Sale, error) {
	sales, err := k.p.read(k.from.files, bytes.NewReader(nil))
	if err := withExpressions(sales, err); err != nil {
		return nil, err
	}
	return k.from.chosen(sales)
}

var _ reload.Server = (*keeper)(nil)

// Served implements reload.Server, as the methods below.
func (k *keeper) Served() map[string]reload.Standing {
	served := make(map[string]reload.Standing)
	for _, e := range k.s.all() {
		is := e.Status()
		served[e.Sale()] = reload.Standing{Generation: is.Generation, Run: is.Run, Over: ledger.Over(is.Phase), Destroyed: is.Phase == ledger.PhaseDestroyed}
	}
	return served
}

func (k *keeper) Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error) {
	added, err := k.s.prepare(ctx, k.p, sale)
	if err != nil {
		return nil, err
	}
	return func() { k.serve(added) }, nil
}

func (k *keeper) Compare(ctx context.Context, sale spec.Sale) error {
	return k.s.compare(ctx, k.p, sale)
}

func (k *keeper) Drop(sale string) { k.drop(sale) }

func (k *keeper) Lack(unserved map[string]reload.Lack) { k.lack(unserved) }
