package check

import "fmt"

// Problem is something that must never be.
type Problem struct {
	Checker string // its name in the table below
	Text    string // what and where: log, slot and op, or the operation by its number
}

func (p Problem) String() string { return p.Checker + ": " + p.Text }

// most is how many problems of one checker are reported: what is broken once tends
// to be broken in every later slot.
const most = 5

// checkers are all there are, in the order in which they judge. The first two
// make of the stored bytes what the others read.
var checkers = []struct {
	name  string
	judge func(*evidence, fault)
}{
	{"decode", decode},           // every stored slot is a commit of a log of a planned run
	{"units", recount},           // every unit is in one place at each slot
	{"slots", slots},             // each log's slots are 0, 1, 2, …
	{"chain", chain},             // each slot names the hash of the one before, and no earlier time
	{"heads", heads},             // each head is what its slots add up to
	{"epochs", epochs},           // epochs grow by Own alone, and only the owner sells or sends
	{"plans", plans},             // runs and generations are planned in order, and units dealt once
	{"shown", shown},             // a plan shows what is to be done, and its command does that alone
	{"generations", takes},       // each shard takes each generation once, as planned
	{"leases", leases},           // one process at a time has the leases
	{"owned", owned},             // while nothing befalls the processes, each shard has an owner
	{"continuity", continuity},   // and planned work fails no claim
	{"strangers", strangers},     // whom the others do not reach takes and keeps no shard
	{"phases", phases},           // no claim, transfer or seal when the settings forbid it
	{"settings", settings},       // each generation has the settings that it declares
	{"ruleSets", ruleSets},       // each generation has the rule set that it declares
	{"eligible", eligible},       // each claim was let in by the rules in force
	{"hours", hours},             // by a right clock, claims are sold in their hours, and refused outside of them
	{"limits", limits},           // nobody passes the limit of the generation in force
	{"given", givenParts},        // a partial claim gets all there can be, and its answer has the quantity
	{"payloads", payloads},       // the ledger has the names of units before they can be sold, and no two are the same
	{"secrets", secrets},         // nobody else than their buyers can read secret units
	{"chosen", chosen},           // whoever chooses units is given those, or nothing
	{"draws", draws},             // a draw comes to what its commitment, entries and beacon imply, step after step
	{"awards", awards},           // units go to entries by their ranks, as far as these reach by then
	{"identities", identity},     // no request has two claims, and each is on its user's home shard
	{"ending", ending},           // Sealed is correct, and comes before the first delete
	{"remains", remains},         // after Destroyed nothing is left but the sale's log
	{"feeds", feeds},             // a feed has all of the ledger, once and in order
	{"reloads", reloads},         // a process serves what its folder declares, from when it can
	{"exports", exports},         // an export is the ledger
	{"audits", audits},           // an audit of a live sale finds nothing wrong, and counts what its slots come to
	{"cuts", cuts},               // a live export is the ledger up to a cut
	{"operations", paired},       // each operation is invoked once and returns at most once
	{"fills", fills},             // fills come in order, and claims under the fill in force
	{"grants", grants},           // what a list gave is in the ledger, and the other way round
	{"ahead", ahead},             // with ack redis, no more is given than the ledger may lack
	{"looks", listReadings},      // a list that gives has nothing that its log lacks
	{"told", listAnswers},        // no unit of a list is in answers to two users, nor two in answers to one
	{"answers", answers},         // every accepted answer has its slot, stored before
	{"first", firsts},            // one answer of a request at most is not a repetition
	{"requests", requests},       // every claim was requested
	{"settlements", settlements}, // the answers to settlements are correct
	{"payments", payments},       // each payment made at the service is in the ledger, once
	{"readings", readings},       // metrics of holds, payments and refunds are what the ledger adds up to
	{"close", closes},            // no claim is stored after close or pause returned
	{"commands", commands},       // what a command returned was done
	{"refusals", refusals},       // what was refused had a reason
	{"undecided", undecided},     // only undecided requests are answered with unknown
	{"order", order},             // of those that wait together, who comes first is given units first
	{"status", status},           // the reports of processes agree with the logs of their shards
	{"metrics", metrics},         // and what they count is what happened
	{"denials", denials},         // no claim under way is denied by whoever has it under way
	{"linear", linear},           // claims and reads of each user are linearizable
	{"converged", converged},     // in the end the units are those that are declared
	{"progress", progress},       // in the end all is sold and nobody waits
}

// fault reports a problem.
type fault func(format string, args ...any)

// Check judges a history. It returns no problems if all is well.
func Check(h *History) []Problem {
	var problems []Problem
	e := &evidence{h: h}
	for _, c := range checkers {
		reported := 0
		c.judge(e, func(format string, args ...any) {
			if reported++; reported <= most {
				problems = append(problems, Problem{c.name, fmt.Sprintf(format, args...)})
			}
		})
	}
	return problems
}

// Names returns the names of all checkers.
func Names() []string {
	names := make([]string, len(checkers))
	for i, c := range checkers {
		names[i] = c.name
	}
	return names
}
