// Package reload decides the effect of reloaded sale files on a server: which sales it starts to
// serve, which it drops, which it reports as unserved, and what it logs about the others. It
// accesses no file and no store.
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

// Server is the server of the sales.
type Server interface {
	// Served returns all served sales, by name.
	Served() map[string]Standing
	// Prepare prepares a sale to be served. It returns the function that starts serving it, or the
	// reason why it cannot be served.
	Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error)
	// Compare reports the differences between the file of a served sale and its applied declaration.
	Compare(ctx context.Context, sale spec.Sale) error
	// Drop stops serving a sale.
	Drop(sale string)
	// Lack sets the declared sales that are not served, by name. While one of them is not over, the
	// server is not ready.
	Lack(unserved map[string]Lack)
}

// Standing is the known state of a served sale.
type Standing struct {
	Generation uint64 // generation that it is served by; 0: unknown
	Run        int64  // newest run; 0: unknown
	Over       bool   // the newest run is sealed or destroyed
	Destroyed  bool
}

// Lack is the reason why a declared sale is not served.
type Lack struct {
	Why    string
	Absent bool // no such sale is known: it is not applied, or destroyed
	Over   bool // the declared run has ended: there is nothing to serve
}

// Keeper keeps a server in line with the sale files. A sale that is declared and applied after the
// start of the server is served from then on. A served sale stays served, whatever happens to its
// file, until it is destroyed and no file declares it. A Keeper is not safe for concurrent use.
type Keeper struct {
	log    *slog.Logger
	why    func(error) Lack
	logged map[string]string // last logged message by sale; "" is the files
	seen   map[string][]byte // last seen declaration by sale, as JSON
	newest map[string]uint64 // newest known generation that serves a sale
	lacks  map[string]Lack   // declared sales that are not served, as of the last Update
}

// New returns a Keeper of a server that serves no sale yet. why converts an error of Server.Prepare into a
// message for operators.
func New(log *slog.Logger, why func(error) Lack) *Keeper {
	return &Keeper{log: log, why: why, logged: make(map[string]string), seen: make(map[string][]byte), newest: make(map[string]uint64), lacks: make(map[string]Lack)}
}

// AddDeclared records a sale declared at the start of the server. err is the reason why it cannot be
// served, or nil.
func (k *Keeper) AddDeclared(sale spec.Sale, err error) {
	if k.changed(sale); err != nil {
		k.lacking(sale, k.why(err))
	}
}

// Lacks returns the declared sales that are not served, by name, as of the last Update.
func (k *Keeper) Lacks() map[string]Lack { return maps.Clone(k.lacks) }

// Update brings a server in line with the current content of the files, or the error of reading them. It
// compares a served sale with its file if either has changed, or if forced is set.
func (k *Keeper) Update(ctx context.Context, server Server, sales []spec.Sale, err error, forced bool) {
	if forced {
		clear(k.logged)
	}
	if err != nil {
		k.warn("", "the sale files cannot be read; serving continues unchanged", err.Error())
		return
	}
	delete(k.logged, "")
	clear(k.lacks)
	served := server.Served()
	for _, sale := range sales {
		if ctx.Err() != nil {
			return
		}
		if is, found := served[sale.Name]; found {
			if is.Over && sale.Run > is.Run { // once applied, the run starts without a reload
				k.lacking(sale, Lack{Why: fmt.Sprintf("run %d is not applied yet, and run %d has ended", sale.Run, is.Run), Absent: true})
			}
			if changed := k.changed(sale); k.applied(sale.Name, is.Generation) || changed || forced {
				if err := server.Compare(ctx, sale); err != nil {
					k.log.Warn("the file cannot be compared with the applied declaration", "sale", sale.Name, "why", err)
				}
			}
			continue
		}
		begin, err := server.Prepare(ctx, sale)
		if err != nil {
			k.lacking(sale, k.why(err))
			k.warn(sale.Name, "a declared sale cannot be served yet", err.Error())
			continue
		}
		delete(k.logged, sale.Name)
		k.changed(sale)
		begin()
		k.log.Info("this process serves a sale from now on", "sale", sale.Name)
	}
	server.Lack(k.Lacks())
	for _, name := range slices.Sorted(maps.Keys(served)) {
		is := served[name]
		switch declared := slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }); {
		case declared || is.Over && !is.Destroyed: // it is about to be destroyed
		case is.Destroyed:
			server.Drop(name)
			delete(k.logged, name)
			delete(k.seen, name)
			delete(k.newest, name)
			k.log.Info("the sale is destroyed, and no file declares it: serving ends", "sale", name)
		default:
			k.warn(name, "no file declares the sale any more; serving continues", "a file may be missing by mistake")
		}
	}
}

// lacking records why a declared sale is not served.
func (k *Keeper) lacking(sale spec.Sale, lack Lack) {
	lack.Why = "it is declared, but not served: " + lack.Why
	k.lacks[sale.Name] = lack
}

// changed reports whether a sale's declaration differs from the last seen one.
func (k *Keeper) changed(sale spec.Sale) bool {
	text, err := sale.JSON()
	before, seen := k.seen[sale.Name]
	k.seen[sale.Name] = text
	return err == nil && seen && !bytes.Equal(before, text)
}

// applied reports whether a sale is served by a newer generation than before.
func (k *Keeper) applied(sale string, generation uint64) bool {
	before := k.newest[sale]
	k.newest[sale] = max(before, generation)
	return before != 0 && generation > before
}

// warn logs a message about a sale unless it was the last one logged.
func (k *Keeper) warn(sale, what, why string) {
	if k.logged[sale] == what+why {
		return
	}
	k.logged[sale] = what + why
	attrs := []any{"why", why}
	if sale != "" {
		attrs = append(attrs, "sale", sale)
	}
	k.log.Warn(what, attrs...)
}
