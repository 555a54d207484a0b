// Package reload decides what a server does when its sale files are read again: which sales
// it begins to serve, which it says that it lacks, and what it tells of the others. It reads
// no file and no store itself.
package reload

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"

	"salectl/spec"
)

// Server is who serves the sales.
type Server interface {
	// Served are all sales that are served, by name, with the generation that each is served
	// by, 0 where that is not known at the moment.
	Served() map[string]uint64
	// Prepare makes a sale ready to be served, and returns what begins to serve it, or says
	// why it cannot be served.
	Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error)
	// Compare tells what differs between the file of a sale that is served and what was applied.
	Compare(ctx context.Context, sale spec.Sale) error
	// Lack says which declared sales are not served, by name. While there is one the server is
	// not ready.
	Lack(unserved map[string]Lack)
}

// Lack is why a sale that is declared is not served.
type Lack struct {
	Why    string
	Absent bool // as far as is known there is no such sale: it is not applied, or destroyed
}

// Keeper has a server keep up with the sale files: a sale that is declared and applied after
// the server began is served from then on. A sale that is served is served on, whatever becomes
// of its file. It is not safe for concurrent use.
type Keeper struct {
	server Server
	log    *slog.Logger
	why    func(error) Lack
	told   map[string]string // of each sale, and of "", the files: what was logged last
	seen   map[string][]byte // the declaration of each sale as it was seen last, as JSON
	newest map[string]uint64 // the newest generation that each is known to be served by
	lacks  map[string]Lack   // which declared sales are not served, as of the last look
}

// New returns a keeper of a server that serves nothing yet. why is what people are told of an
// error of Prepare.
func New(server Server, log *slog.Logger, why func(error) Lack) *Keeper {
	return &Keeper{server: server, log: log, why: why, told: make(map[string]string), seen: make(map[string][]byte), newest: make(map[string]uint64), lacks: make(map[string]Lack)}
}

// Began notes a sale that was declared when the server began, and why it cannot be served, nil
// if it is.
func (k *Keeper) Began(sale spec.Sale, err error) {
	if k.changed(sale); err != nil {
		k.lacking(sale, err)
	}
}

// Lacks are the declared sales that are not served, by name, as of the last look.
func (k *Keeper) Lacks() map[string]Lack { return maps.Clone(k.lacks) }

// Look takes in what the files say now, or why they cannot be read. A sale that is served is
// compared with its file when the one or the other has changed, and when that was asked for.
func (k *Keeper) Look(ctx context.Context, sales []spec.Sale, err error, asked bool) {
	if asked {
		clear(k.told)
	}
	if err != nil {
		k.tell("", "the sale files cannot be read; what is served is served on", err.Error())
		return
	}
	delete(k.told, "")
	clear(k.lacks)
	served := k.server.Served()
	for _, sale := range sales {
		if ctx.Err() != nil {
			return
		}
		if generation, is := served[sale.Name]; is {
			if changed := k.changed(sale); k.applied(sale.Name, generation) || changed || asked {
				if err := k.server.Compare(ctx, sale); err != nil {
					k.log.Warn("whether the file differs from what was applied cannot be told", "sale", sale.Name, "why", err)
				}
			}
			continue
		}
		begin, err := k.server.Prepare(ctx, sale)
		if err != nil {
			k.lacking(sale, err)
			k.tell(sale.Name, "a sale is declared and cannot be served yet", err.Error())
			continue
		}
		delete(k.told, sale.Name)
		k.changed(sale)
		begin()
		k.log.Info("a sale is served from now on", "sale", sale.Name)
	}
	k.server.Lack(k.Lacks())
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }) {
			k.tell(name, "no file declares the sale any more; it is served on", "a file may be gone by mistake")
		}
	}
}

// lacking notes why a sale that is declared is not served.
func (k *Keeper) lacking(sale spec.Sale, err error) {
	lack := k.why(err)
	lack.Why = "it is declared, and not served: " + lack.Why
	k.lacks[sale.Name] = lack
}

// changed says whether a sale's declaration is another one than when it was seen last.
func (k *Keeper) changed(sale spec.Sale) bool {
	text, err := sale.JSON()
	before, seen := k.seen[sale.Name]
	k.seen[sale.Name] = text
	return err == nil && seen && !bytes.Equal(before, text)
}

// applied says whether a sale is served by a newer generation than was known.
func (k *Keeper) applied(sale string, generation uint64) bool {
	before := k.newest[sale]
	k.newest[sale] = max(before, generation)
	return before != 0 && generation > before
}

// tell logs something of a sale, unless it was what was logged last.
func (k *Keeper) tell(sale, what, why string) {
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
