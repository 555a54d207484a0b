package ownership

import (
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// saleLog follows the sale's log.
type saleLog struct {
	name   string
	sale   *ledger.Sale
	reader *ledger.Writer // never appends
	do     ledger.Do      // next action of the reader
	damage error          // cause why the log cannot be followed

	sentAt   clock.Now     // time at which the read under way was sent
	readAt   clock.Now     // time at which the last good read was sent: its result was true then
	nextRead time.Duration // monotonic
	readErr  error         // of the last read; nil: it was good
	seen     uint64        // number of slots once read: the log is not deleted
	missing  *Logged       // the live run whose log is gone; nil: none
}

// Logged is the content of the sale's log as of the last read.
type Logged struct {
	ReadAt     time.Time // time of the read; zero: none yet
	Phase      string    // phase in the ledger; "": unknown
	UID        string
	Run        int64
	Generation uint64
	Shards     int
	PerUser    int64
	OpensAt    time.Time
	ClosesAt   time.Time
}

// ReadsPerTTL is the number of reads of the sale's log per ttl during a session.
const ReadsPerTTL = 3

// followEvery is the interval of reads of the sale's log without a session.
const followEvery = 500 * time.Millisecond

// restart begins to read the log from its start.
func (l *saleLog) restart() {
	l.sale = ledger.NewSale(l.name)
	l.reader = ledger.NewWriter(l.name, l.sale)
}

// take processes the reader's result, and reports whether the log is read to its end. every is the time until
// the next read.
func (l *saleLog) take(now clock.Now, do ledger.Do, every time.Duration) (caughtUp bool) {
	l.do = do
	switch do.Event {
	case ledger.CaughtUp:
		l.readAt = l.sentAt
		if l.missing != nil && l.sale.Run() >= l.missing.Run {
			l.missing = nil
		}
		l.seen = max(l.seen, l.sale.Next())
		l.nextRead = now.Mono + every
		return true
	case ledger.Gone:
		if l.sale.Live() {
			was := l.logged()
			l.missing = &was
		}
		l.restart()
		l.nextRead = now.Mono + every
	case ledger.Damaged:
		l.damage = do.Err
	}
	return false
}

// next returns the read to make, or nil, and the time of the next call.
func (l *saleLog) next(now clock.Now) (read *ledger.Request, wake time.Duration) {
	if l.reader.Idle() && now.Mono >= l.nextRead {
		l.do = l.reader.CatchUp()
	}
	if read = l.do.Send; read != nil {
		l.sentAt, l.do.Send = now, nil
	}
	wake = l.do.Wake
	if l.reader.Idle() {
		wake = clock.Soonest(wake, l.nextRead)
	}
	return read, wake
}

// logged returns the content of the sale's log, or nothing but ReadAt if the store returned fewer
// slots than before: its answer is stale.
func (l *saleLog) logged() Logged {
	is := Logged{ReadAt: l.readAt.Wall}
	if is.ReadAt.IsZero() || l.sale.Next() < l.seen || l.sale.Generation() == 0 {
		return is
	}
	is.Phase, is.UID, is.Run, is.Generation, is.Shards = l.sale.Phase(), l.sale.UID(), l.sale.Run(), l.sale.Generation(), l.sale.Shards()
	settings := l.sale.Newest().GetSettings()
	is.PerUser, is.OpensAt, is.ClosesAt = settings.GetPerUserLimit(), ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	return is
}

// parting returns the outcome of requests that were undecided at the end of a run: Closed, if the
// log still has the run. A missing log proves nothing: the read may have lagged.
func (l *saleLog) parting(uid string) api.Outcome {
	if l.sale.UID() == uid {
		return api.Closed
	}
	return api.Standby
}
