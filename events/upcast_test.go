package events

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
)

func TestSettlementsOfSchema1TellTheSameMultipliersInSchema2(t *testing.T) {
	for name, c := range map[string]struct{ v1, v2 string }{
		"none":           {`{"outcome":"completed","cost":"1"}`, `{"outcome":"completed","cost":"1"}`},
		"all of them":    {`{"a":1,"input_multiplier":"1.5","output_multiplier":"2","group_multiplier":"0.9","cost":"1"}`, `{"a":1,"multipliers":{"input":"1.5","output":"2","group":"0.9"},"cost":"1"}`},
		"what is 1":      {`{"a":1,"input_multiplier":"1","output_multiplier":"1.00","group_multiplier":"1."}`, `{"a":1}`},
		"one":            {`{"a":{"b":"{"},"group_multiplier":"1.10"}`, `{"a":{"b":"{"},"multipliers":{"group":"1.10"}}`},
		"the first one":  {`{"output_multiplier":"3","a":1}`, `{"multipliers":{"output":"3"},"a":1}`},
		"alone":          {`{"output_multiplier":"3"}`, `{"multipliers":{"output":"3"}}`},
		"alone and 1":    {`{"output_multiplier":"1"}`, `{}`},
		"white space":    {`{ "a" : 1 , "input_multiplier" : "2", "b": [1, 2] }`, `{"a":1,"multipliers":{"input":"2"},"b":[1, 2]}`},
		"odd texts":      {`{"input_multiplier":"\"\u00e9\"","output_multiplier":""}`, `{"multipliers":{"input":"\"é\""}}`},
		"in other order": {`{"group_multiplier":"2","a":1,"input_multiplier":"3"}`, `{"multipliers":{"input":"3","group":"2"},"a":1}`},
		"escaped names":  {`{"input\u005fmultiplier":"3"}`, `{"multipliers":{"input":"3"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			given := []byte(c.v1)
			got, err := settledMultipliers(given)
			require.NoError(t, err)
			require.Equal(t, c.v2, string(got))
			require.Equal(t, c.v1, string(given), "what is stored was changed")
		})
	}
	for _, broken := range []string{`{"input_multiplier":1}`, `{"input_multiplier":"1"`, `["input_multiplier":"1"]`} {
		_, err := settledMultipliers([]byte(broken))
		require.Error(t, err, broken)
	}
}

// The fixture of schema 1 is what a gateway of that time wrote; it is never touched.
func TestTheFixtureOfASettlementOfSchema1ReadsAsTheOneOfSchema2(t *testing.T) {
	old, err := Decode("request.settled", readFixture(t, fixture("request.settled", 1)))
	require.NoError(t, err)
	s := old[0].(*request.Settled)
	require.Equal(t, request.Multipliers{Input: "gpt-5-mini", Output: "alice", Group: "team-a"}, s.Multipliers)
	require.EqualValues(t, 555, s.DurationUS)
	r := Row{Facts: old}
	require.NoError(t, Encode(&r))
	require.Equal(t, "request.settled@2", r.Types)
	again, err := Decode(r.Types, r.Payload)
	require.NoError(t, err)
	require.Equal(t, old, again)
}
