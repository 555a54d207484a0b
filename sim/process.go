package sim

import (
	"fmt"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
)

// process is one run of a program: an executor or a planner. It has clocks of
// its own, can be paused, and dies without a word.
type process struct {
	w     *world
	name  string
	host  host
	clock hostClock
	m     machine

	alive  bool
	life   int // counts the runs: what an earlier one waited for is not for this one
	paused bool
	inbox  []func() // what came in during the pause

	asleep bool          // it is paused with its host
	set    time.Duration // virtual: when its wall clock was last set
	awake  time.Duration // virtual: when its host last awoke
	wake   time.Duration
	wakes  int // counts changes of wake: only the last is heeded

	second time.Duration // virtual: the last second with a tick
	ticks  int           // in that second

	died  func(back time.Duration) // notifies whoever starts it again that it was killed
	ended func()                   // or that it has ended by itself
}

// machine is the stepped form of a program.
type machine interface {
	tick(now clock.Now)
	// next returns what to do after any input. wake: call tick at this monotonic
	// time; 0: no need. gone: the process has ended by itself.
	next(now clock.Now) (made []calls.Call, wake time.Duration, gone bool)
}

// start begins a run.
func (p *process) start(m machine, clock hostClock) {
	p.life++
	p.alive, p.paused, p.asleep, p.inbox = true, false, false, nil
	p.set, p.awake = -apart, -apart
	p.m, p.clock, p.wake = m, clock, 0
	p.w.note(p.name, "starts", "", nil)
	p.settle()
}

// now is what the process's clocks show.
func (p *process) now() clock.Now { return p.clock.now(p.w.now) }

// event lets something happen to the process, when its pause is over if it is
// paused.
func (p *process) event(what string, do func(now clock.Now)) { p.eventOr(what, do, func() {}) }

// eventOr does something else if the process has ended by then.
func (p *process) eventOr(what string, do func(now clock.Now), ended func()) {
	life := p.life
	happen := func() {
		if !p.alive || p.life != life {
			ended()
			return
		}
		p.w.note(p.name, what, "", nil)
		do(p.now())
		p.settle()
	}
	if p.paused {
		p.inbox = append(p.inbox, happen)
		return
	}
	happen()
}

// settle does what the machine wants done.
func (p *process) settle() {
	if !p.alive {
		return
	}
	life := p.life
	calls, wake, gone := p.m.next(p.now())
	for _, c := range calls {
		if p.w.crashes(p, beforeSending, c.What) {
			return
		}
		p.w.call(p, c)
		if p.w.crashes(p, afterSending, c.What) {
			return
		}
	}
	if gone {
		p.alive = false
		p.w.note(p.name, "ends", "", nil)
		p.ended()
		return
	}
	if wake == p.wake || p.life != life {
		return
	}
	p.wake = wake
	p.sleep()
}

// sleep has the machine ticked at wake.
func (p *process) sleep() {
	p.wakes++
	if p.wake == 0 {
		return
	}
	life, wakes := p.life, p.wakes
	p.w.at(p.clock.when(p.wake), func() {
		if p.life != life || p.wakes != wakes {
			return
		}
		p.event("tick", func(now clock.Now) {
			if p.wakes == wakes {
				p.wake = 0
			}
			p.count()
			p.m.tick(now)
		})
	})
}

// maxTicks is the maximum number of ticks of a process in a virtual second. A process has a few hundred
// at most. One that repeatedly requires a tick at a time that has passed would never let time pass.
const maxTicks = 20_000

// count counts a tick, and ends the world if the process spins.
func (p *process) count() {
	if second := p.w.now.Truncate(time.Second); second != p.second {
		p.second, p.ticks = second, 0
	}
	if p.ticks++; p.ticks > maxTicks {
		panic(fmt.Sprintf("%s spins: it had %d ticks since %v", p.name, p.ticks, p.second))
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill(back time.Duration) {
	if !p.alive {
		return
	}
	p.alive = false
	p.life++
	p.w.note(p.name, "killed", "", nil)
	inbox := p.inbox
	p.inbox = nil
	for _, happen := range inbox {
		happen() // whoever waits learns that nobody is there
	}
	p.died(back)
}

// pause stops the process for a while; suspended: its host too, whose monotonic
// clock stands still then.
func (p *process) pause(d time.Duration, suspended bool) {
	if !p.alive || p.paused {
		return
	}
	suspended = suspended && p.w.now > p.set+apart
	p.paused, p.asleep = true, suspended
	p.w.note(p.name, "pauses", d.String(), nil)
	life, before := p.life, p.now().Mono
	p.w.after(d, func() {
		if p.life != life {
			return
		}
		if suspended {
			p.clock.suspend(p.w.now, before)
			p.asleep, p.awake = false, p.w.now
			p.sleep()
		}
		p.resume()
	})
}

// resume lets in what came meanwhile, in no certain order.
func (p *process) resume() {
	p.w.note(p.name, "resumes", "", nil)
	inbox := p.inbox
	p.paused, p.inbox = false, nil
	p.w.random.faults.Shuffle(len(inbox), func(i, j int) { inbox[i], inbox[j] = inbox[j], inbox[i] })
	for _, happen := range inbox {
		happen()
	}
}

// apart is how far a sleep of the host and a jump of its wall clock are apart:
// together they leave no clock that measures how long it slept, and then a lease
// promises nothing.
const apart = 10 * time.Second

// shift moves the wall clock or changes the rate of the process's host.
func (p *process) shift(jump time.Duration, rate float64) {
	if !p.asleep && p.w.now > p.awake+apart {
		p.clock.jump(jump)
		p.set = p.w.now
	}
	p.clock.drift(p.w.now, rate)
	p.sleep()
}
