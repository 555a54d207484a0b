package cli

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"salectl/spec"
)

// keeper has a server keep up with the sale files: a sale that is declared and applied after
// the server began is served from then on.
type keeper struct {
	s    *server
	p    *program
	from source
	log  *slog.Logger

	serve   func(hosted)            // begins to serve a sale
	declare func(map[string]string) // says which declared sales are not served, and why
	hup     chan os.Signal          // asks for a look
	told    map[string]string       // of each sale, and of "", the files: what was logged last
	seen    map[string][]byte       // the declaration of each sale as it was seen last, as JSON
	lacks   map[string]string       // which declared sales are not served, and why, as it was seen last
}

// lookForSales is how often the files of a folder are read again.
const lookForSales = time.Second

// newKeeper returns a keeper that hears SIGHUP from now on, which ends the process no more.
func (p *program) newKeeper(s *server, from source) *keeper {
	k := &keeper{s: s, p: p, from: from, log: s.log, hup: make(chan os.Signal, 1), told: make(map[string]string), seen: make(map[string][]byte), lacks: make(map[string]string)}
	signal.Notify(k.hup, syscall.SIGHUP)
	return k
}

// watches says whether files are read again unasked: those of a folder are.
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
		select {
		case <-ctx.Done():
			return
		case <-every:
			k.look(ctx, false)
		case <-k.hup:
			k.log.Info("the sale files are read again, since SIGHUP came")
			clear(k.told)
			k.look(ctx, true)
		}
	}
}

// look reads the files, begins to serve what can be served and was not, and tells what
// differs; of sales whose file has not changed only if it was asked.
func (k *keeper) look(ctx context.Context, asked bool) {
	sales, err := k.read()
	if err != nil {
		k.tell("", "the sale files cannot be read; what is served is served on", err.Error())
		return
	}
	delete(k.told, "")
	clear(k.lacks)
	for _, sale := range sales {
		if ctx.Err() != nil {
			return
		}
		if is := k.s.serves(sale.Name); is != nil {
			if k.changed(sale) || asked {
				if err := k.s.compare(ctx, k.p, *is, sale); err != nil {
					k.log.Warn("whether the file differs from what was applied cannot be told", "sale", sale.Name, "why", err)
				}
			}
			continue
		}
		added, err := k.s.prepare(ctx, k.p, sale)
		if err != nil {
			k.lacking(sale, err)
			k.tell(sale.Name, "a sale is declared and cannot be served yet", err.Error())
			continue
		}
		delete(k.told, sale.Name)
		k.changed(sale)
		k.serve(added)
		k.log.Info("a sale is served from now on", "sale", sale.Name)
	}
	k.declare(maps.Clone(k.lacks))
	for _, name := range k.s.names() {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }) {
			k.tell(name, "no file declares the sale any more; it is served on", "a file may be gone by mistake")
		}
	}
}

// lacking notes why a sale that is declared is not served.
func (k *keeper) lacking(sale spec.Sale, err error) {
	what, _ := explain(err)
	k.lacks[sale.Name] = "it is declared, and not served: " + what
}

// read reads the files as load does, and reports nothing.
func (k *keeper) read() ([]spec.Sale, error) {
	sales, err := k.p.read(k.from.files, bytes.NewReader(nil))
	if err := withExpressions(sales, err); err != nil {
		return nil, err
	}
	return k.from.chosen(sales)
}

// changed says whether a sale's declaration is another one than when it was seen last.
func (k *keeper) changed(sale spec.Sale) bool {
	text, err := sale.JSON()
	before, seen := k.seen[sale.Name]
	k.seen[sale.Name] = text
	return err == nil && seen && !bytes.Equal(before, text)
}

// tell logs something of a sale, unless it was what was logged last.
func (k *keeper) tell(sale, what, why string) {
	if k.told[sale] == what+why {
		return
	}
	k.told[sale] = what + why
	attrs := []any{"why", why}
	if sale != "" {
		attrs = append(attrs, "sale", sale)
	}
	k.log.Warn(what, attrs...)
}
