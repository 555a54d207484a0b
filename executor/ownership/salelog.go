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
	reader *ledger.Writer // only ever reads
	do     ledger.Do      // what the reader wants done next
	damage error          // the log cannot be followed

	sentAt   clock.Now     // when the read under way was sent
	readAt   clock.Now     // when the last good read was sent: what it found was true then
	nextRead time.Duration // monotonic
	readErr  error         // of the last read, nil if it was good
	seen     uint64        // slots that were read once: the log is not deleted
	missing  *Logged       // the live run whose log is gone; nil: there is none
}

// Logged is what the sale's log says, as it was read last.
type Logged struct {
	ReadAt     time.Time // when that was; zero: never
	Phase      string    // in the ledger; "": it says nothing
	UID        string
	Run        int64
	Generation uint64
	Shards     int
	PerUser    int64
	OpensAt    time.Time
	ClosesAt   time.Time
}

// ReadsPerTTL is how often a ttl the sale's log is read while there is a session.
const ReadsPerTTL = 3

// followEvery is how often the sale's log is read while there is no session.
const followEvery = 500 * time.Millisecond

// restart begins to read the log anew.
func (l *saleLog) restart() {
	l.sale = ledger.NewSale(l.name)
	l.reader = ledger.NewWriter(l.name, l.sale)
}

// replied takes in the reply to the read under way. The log is read again after every.
func (l *saleLog) replied(now clock.Now, r ledger.Reply, every time.Duration) (caughtUp bool) {
	l.readErr = r.Err
	return l.take(now, l.reader.Done(now, r), every)
}

// tick takes in the time.
func (l *saleLog) tick(now clock.Now, every time.Duration) (caughtUp bool) {
	return l.take(now, l.reader.Tick(now), every)
}

// take takes in what the reader found out, and reports whether it has read the log to the end.
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

// next returns the read to be made, if there is one, and when to be called again.
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

// logged is what the sale's log says. What was read once is there, or the store answers from
// the past.
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

// parting returns the outcome of requests that were not decided when a run ended: that it is closed,
// if the log says so. A log that is gone says nothing: the read may have lagged.
func (l *saleLog) parting(uid string) api.Outcome {
	if l.sale.UID() == uid {
		return api.Closed
	}
	return api.Standby
}
