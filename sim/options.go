package sim

import (
	"io"
	"time"
)

// Options select the world to run. The seed alone makes it; the others make it
// smaller, to see what a failure needs. Zero is the default.
type Options struct {
	Seed    uint64
	Clients int           // with requests at a time
	Ops     int           // that clients make, at least
	Faults  int           // that befall the world, at most; below 0: none
	Until   time.Duration // virtual time at which the faults stop
	Trace   io.Writer     // gets every event as a line of text; nil: nobody reads
}

// What a world has by default.
const (
	DefaultClients = 16
	DefaultOps     = 320
	DefaultFaults  = 200
	DefaultUntil   = 25 * time.Second
)

func (o Options) orDefault() Options {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Clients, DefaultClients)
	set(&o.Ops, DefaultOps)
	set(&o.Faults, DefaultFaults)
	if o.Until == 0 {
		o.Until = DefaultUntil
	}
	return o
}
