// Package reload decides what a server does when its sale files are read again: which sales
// it begins to serve, which it drops, which it says that it lacks, and what it tells of the others. It reads
// no file and no store itself.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"salectl/spec"
)

// Server is who serves the sales.
type Server interface {
	// Served are all sales that are served, by name.
	Served() map[string]Standing
	// Prepare makes a sale ready to be served, and returns what begins to serve it, or says
	// why it cannot be served.
	Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error)
	// Compare tells what differs between the file of a sale that is served and what was applied.
	Compare(ctx context.Context, sale spec.Sale) error
	// Drop has a sale served no more.
	Drop(sale string)
	// Lack says which declared sales are not served, by name. While there is one that is not
	// over the server is not ready.
	Lack(unserved map[string]Lack)
}

// Standing is how a sale stands that is served, as far as is known at the moment.
type Standing struct {
	Generation uint64 // that it is served by; 0: it is not known
	Run        int64  // the newest one; 0: it is not known
	Over       bool   // that run has ended for good: it is sealed, or destroyed
	Destroyed  bool
}

// Lack is why a sale that is declared is not served.
type Lack struct {
	Why    string
	Absent bool // as far as is known there is no such sale: it is not applied, or destroyed
	Over   bool // the run that is declared has ended for good: there is nothing to serve
}

// Keeper has a server keep up with the sale files: a sale that is declared and applied after
// the server began is served from then on. A sale that is served is served on, whatever becomes
// of its file, until it is destroyed and no file declares it. It is not safe for concurrent use.
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
		k.lacking(sale, k.why(err))
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
		if is, found := served[sale.Name]; found {
			if is.Over && sale.Run > is.Run { // which begins without a look, once it is applied
				k.lacking(sale, Lack{Why: fmt.Sprintf("run %d is not applied, and run %d is over", sale.Run, is.Run), Absent: true})
			}
			if changed := k.changed(sale); k.applied(sale.Name, is.Generation) || changed || asked {
				if err := k.server.Compare(ctx, sale); err != nil {
					k.log.Warn("whether the file differs from what was applied cannot be told", "sale", sale.Name, "why", err)
				}
			}
			continue
		}
		begin, err := k.server.Prepare(ctx, sale)
		if err != nil {
			k.lacking(sale, k.why(err))
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
		is := served[name]
		switch declared := slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }); {
		case declared || is.Over && !is.Destroyed: // it is about to be
		case is.Destroyed:
			k.server.Drop(name)
			delete(k.told, name)
			delete(k.seen, name)
			delete(k.newest, name)
			k.log.Info("the sale is destroyed, and no file declares it: it is served no more", "sale", name)
		default:
			k.tell(name, "no file declares the sale any more; it is served on", "a file may be gone by mistake")
		}
	}
}

// lacking notes why a sale that is declared is not served.
func (k *Keeper) lacking(sale spec.Sale, lack Lack) {
	lack.Why = "it is declared, and not served: " + lack.Why
	k.lacks[sale.Name] = lack
}

// changed reports whether a sale's declaration is another one than when it was seen last.
func (k *Keeper) changed(sale spec.Sale) bool {
	text, err := sale.JSON()
	before, seen := k.seen[sale.Name]
	k.seen[sale.Name] = text
	return err == nil && seen && !bytes.Equal(before, text)
}

// applied reports whether a sale is served by a newer generation than was known.
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
