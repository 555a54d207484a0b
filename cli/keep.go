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

// keeper reads the sale files of a server again, and has it keep up with them.
type keeper struct {
	*reload.Keeper
	s    *server
	p    *program
	from source
	hup  chan os.Signal // asks for a look

	serve func(hosted)      // begins to serve a sale
	drop  func(sale string) // see reload.Server, as what follows
	lack  func(map[string]reload.Lack)
}

// lookForSales is how often the files of a folder are read again.
const lookForSales = time.Second

// newKeeper returns a keeper that hears SIGHUP from now on, which ends the process no more.
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

// watches reports whether files are read again unasked: those of a folder are.
func (k *keeper) watches() bool { return slices.ContainsFunc(k.from.files, isFolder) }

// keep looks until ctx ends: at each SIGHUP, and once a second where a folder was named.
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
		k.Look(ctx, sales, err, asked)
	}
}

// read reads the files as load does, and reports nothing.
func (k *keeper) read() ([]spec.Sale, error) {
	sales, err := k.p.read(k.from.files, bytes.NewReader(nil))
	if err := withExpressions(sales, err); err != nil {
		return nil, err
	}
	return k.from.chosen(sales)
}

var _ reload.Server = (*keeper)(nil)

// Served is reload.Server's, as what follows.
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
