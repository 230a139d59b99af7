package penstock_test

import (
	"testing"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The gateway keeps its promises on PostgreSQL as on the embedded store.
func TestOnPostgreSQL(t *testing.T) {
	server := pgtest.Shared(t)
	storeOf = func(t *testing.T) string { return server.NewDatabase(t) }
	t.Cleanup(func() { storeOf = nil })
	for name, test := range map[string]func(*testing.T){
		"answers": TestAnswersAreThoseOfADirectCall, "early refusals": TestEarlyRefusals, "slots": TestSlotsAreExactAndTheQueueIsFirstComeFirstServed,
		"queue": TestQueueRefusals, "cut streams": TestCutStreamsNeverLookComplete, "client gone": TestClientGoneAfterDispatch,
		"exhausted": TestExhaustedThenOpen, "drain": TestCloseDrainsAndLeavesNothing, "durability": TestDurabilityLevels,
		"sessions": TestSessionsKeepTheirAccountAlsoAcrossARestart, "continuations": TestAResponseIsContinuedByTheAccountThatGaveIt,
		"restart": TestBreakersAndBlocksSurviveARestart, "same after a restart": TestBreakersAndBlocksAreTheSameAfterARestart, "recount": TestTheBillIsWhatTheUpstreamsOwnRecordsAddUpTo, "as of": TestABillAsOfAMomentIsTheOneThatWasShownThen,
		"other versions": TestRowsOfAnotherVersionAreServedWhileTheyAreRebuilt, "until": TestReplayUntilTellsTheBooksOfThatMomentAndLeavesTheLiveRowsAlone,
		"rates": TestFiftyClientsNeverGetMoreThanTheirRequestsPerMinute, "budgets": TestFiftyClientsNeverSpendMoreThanAStrictBudget, "bound": TestBoundAddressesAndSpendingSurviveARestart,
		"reprice": TestAWrongPriceIsPutRightForWhatIsSettled, "reprice limits": TestBalancesAndLimitsFollowARepricing,
		"statement": TestAStatementIsTheBillAndTheBalance, "statement of a repricing": TestARepricingStandsOnTheStatementAndMovesTheBalance,
		"balances": TestMoneyOfUsersSurvivesARestart, "windows": TestWindowsOfASubscriptionOpenAtTheirMoment,
	} {
		t.Run(name, test)
	}
}

// Hosted servers are reached over TLS.
func TestOnPostgreSQLOverTLS(t *testing.T) {
	server := pgtest.Shared(t)
	storeOf = func(t *testing.T) string { return server.OverTLS(server.NewDatabase(t)) }
	t.Cleanup(func() { storeOf = nil })
	t.Run("answers", TestAnswersAreThoseOfADirectCall)
	t.Run("recount", TestTheBillIsWhatTheUpstreamsOwnRecordsAddUpTo)
}
