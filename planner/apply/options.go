package apply

import (
	"time"

	"salectl/backends/lists"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/units"
)

// Config holds the backends and options of Apply and Destroy.
type Config struct {
	machine.Backends
	Options
	// Remember receives from Destroy what users bought, before anything is deleted. Nil: the
	// purchases are not kept.
	Remember Remember
	// Linger is how long Destroy keeps the sealed logs after their export, so that feeds which
	// are up to date read the end. With 0 it deletes at once.
	Linger time.Duration
}

// Options are the parameters of an execution that no backend determines.
type Options struct {
	// Writer is 8 random bytes, drawn anew for each run of the program.
	Writer []byte
	// Who is recorded in the sale's log as the planner, as user@host.
	Who string
	// Progress is called once for each address that is done, never concurrently. It may be
	// nil.
	Progress func(Progress)
	// CancelHolds makes Destroy cancel held claims. Otherwise it waits until each is settled.
	CancelHolds bool
	// Units supplies the payloads of the units that Apply adds (ReadUnits); nil if units are
	// numbers.
	Units *current.Payloads
	// Key decrypts the payloads of units; nil if units are numbers or public.
	Key *units.Key
	// DrawKey encrypts the secret of a draw that Apply begins, and decrypts it for a plan of
	// MakeReveal; nil if neither happens.
	DrawKey *units.Key
}

// Terms are the parameters of the Machine of an execution.
type Terms struct {
	machine.Names
	Options
	Sizes lists.Sizes // of the calls on lists; 0: the defaults
}

func (c Config) terms() Terms { return Terms{Names: c.Names(), Options: c.Options} }
