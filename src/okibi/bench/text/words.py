"""Candidate words: short, common, lower case, each once.

Almost all are a single token, with and without a leading space, in every large tokenizer. Must
never hold anything that a chat template or a tokenizer treats specially.
"""

_TEXT = """
a able about above accept access account act action active add address after again age agent air
all allow alone along also always am among amount an and another answer any apart api app apple
apply are area argument arm around array art as ask at auto away back bad balance ball band bank
bar base basic be bear because bed been before being below best better between big bill bit
black block blood blue board body book border born both bottom box boy branch break build bus
business but button buy by byte call came camera can cap car card care case cash cast cat cause
cell center central chain chair change char charge chart check child choice choose city class
clean clear click client close cloud club code cold collection color column com come command
comment commit common company complete computer condition config connect contact content context
control cook cool copy core correct cost count country course court cover create credit cross
cup current custom cut cycle daily dark data date day dead deal death debug deep default degree
delete demand depth design detail device did die different digital direct display do doc doctor
does dog domain done door double down draw dream drive drop dry due each ear early earth east
easy eat edge edit effect egg eight either element else email empty end energy engine english
enough enter entry equal error even event ever every example except exit expect expert extra eye
face fact fail fair fall family far farm fast fat father feature feed feel feet felt few field
fight figure file fill film final find fine finger fire firm first fish fit five fix flag flat
floor flow fly focus follow font food foot for force foreign form format forward found four
frame free fresh friend from front full fun function fund future game gas gen general get girl
give glass go goal god gold gone good got grade grand graph gray great green ground group grow
growth guess guide hair half hand hang happy hard has hat have he head health heart heat heavy
height held hello help her here hero hide high hill him his history hit hold hole home horse
host hot hour house how human hundred i ice idea if image in include index info init inner input
inside int into iron is issue it item its job join json jump just keep key kid kill kind king
know label lake land language large last late later law lay layer lead learn least leave left
leg legal length less let letter level library lie life light like limit line link list little
live load local location lock log long look loop loss lost lot love low machine made magic mail
main major make man manager many map mark market master match material matter max may me mean
measure meat media medical member memory men merge message metal method middle might mile
military milk million min mind mine minute miss mobile mode model modern module moment money
month moon more most mother motion mount mouse mouth move movie much multi music must my name
national nature near neck need net network never new news next night nine no node noise none
normal north nose not note nothing now null number object of off offer office oil old on once
one online only open option or orange order other our out output outside over own pack page pair
panel paper parent park parse part party pass past patch path pattern pay peace people per
perfect person phone photo pick picture piece place plan plane plant plastic plate play player
please plus point pool poor pop port position post pot power present press pretty price print
private problem process product profile program project property public pull pure push put
quality query question queue quick quiet quite race radio rain raise random range rate raw reach
read ready real reason record red region remove render repeat reply report request reset rest
result return review rich ride right ring rise risk river road rock role roll room root rose
round route row rule run safe said sale salt same sample sand save say scale scene schedule
school science scope score screen script sea search season seat second secret section see seed
select self sell send sense server service session set seven several shape share sharp she ship
shirt shop short shot should show side sign signal simple since single site six size skin sky
sleep slow small smart snow so social soft some son song soon sort sound source south space
special speed spirit split spot spring square stack staff stage stand standard star start state
static status stay step still stock stone stop store storm story street string strong student
study style sub such sugar summer sun support surface switch symbol system table tag take talk
tall target task tax team tell template ten term test text than thank that the theme then there
these they thin thing think this those three through time tiny title to today token tone tool
top total touch town track trade train travel tree trial trip true trust try turn two type under
unit until up update upper us use user usual valid value van vector version very video view
visit voice wait walk wall want war warm wash watch water wave way we wear web week weight well
went west what wheel when where which while white who whole why wide width wife wild will win
wind window wine wing winter wire with within woman wood word work world worth would write wrong
yard year yellow yes yet you young your zero zone
"""

CANDIDATE_WORDS: tuple[str, ...] = tuple(_TEXT.split())
