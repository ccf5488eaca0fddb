"""Files that Apache Hudi 1.2.0 wrote, of the kinds that the fixture tables lack, in base 85.

Records are without their containers; the schemas in those are what `FINGERPRINTS` stands for.
"""

from __future__ import annotations

from base64 import b85decode

from hoodoo.model.instant import Action, State

RECORDS: dict[tuple[Action, State], bytes] = {
    (Action.CLEAN, State.REQUESTED): b85decode(
        "0wOXnGBz<WF*YzTG&nLcI5aX0V{dJ3X><}pPfbuvMN~yZA~G;CHZd_VHZU+WI5ILgG%_YjMMY3wOhHsdQ&e9"
        "=PfblpR8s-~00aUA25>!j0s_VXW@&6?IxloDV{dm~VRB<=X?A5~FK|71FJ)#jV>K{lGA%J=FgYzWWMwujI5}"
        "oCEihs?Wi>D|W;roqIV~_>F)cAMGc7SQIA1a_GBz<WF*YzTG&nIiH!(9VaA9(Bb!Bt{000JXJ$M2F#sOw&Y-"
        "KtxbT4CXcVA(0V`yo1Wn?dKJ$NrUFlJ(9VKFf+V=-bfEi^V{W-VegW@Rm8Gh;bnVq!NjH8(dcFkdh&F)=eOF"
        "*7$`GB7eWF)=YVFfcSYF*!FeGcIspa&dKKbOHbX00IC400"
    ),
    (Action.CLEAN, State.COMPLETED): b85decode(
        "A~G;CHZd_VHZU+WI5IRdF*ddX1R^ppGBz<WF*YzTG&nLcI5aXMGB7eWF)=YVFfcSYGBP+cG6V*2J$MFiJ$NQ"
        "dMMY3wOhHsdQ&e9=PfblpR8s<!0XZ;cVr5}5F)d>;Vlpi>He_ZkVl-xDEo3ueIbmXAH!(FgH!Uz<FfB1LGc7"
        "SQH(xR^GBz<WF*YzTG&nIiH!(9VaA9(Bb!Bt_0+azcFlJ(9VKFf+V=-bfEi^V{W-VegW@Rm8Gh;bnVq!NjH8"
        "(dcFkdh&F)=eOF*7$`GB7eWF)=YVFfcSYF*!FeGcIspa&dKKbN~PX00wY9c?NJjc_vFmMNnT%K~zOkR9{0+O"
        "-)HuQv#F$Wo9yCH85r}Eiq&;IW06~Wi~B1Ic791Fk&}lH83(}IWc27Eihj(Eio}OEip4VUotQ<HZd_VHZU+W"
        "I59alF*7c3VRCVGWpn@nlmTUCGGjF`W-=`?WH31`G-PEqEjT%5G%YY<H)S<2GG;k3V>vA_UokB)F*7YOGdN!"
        "|FfukVF)=nUFf=$ZIX5vgE^uLTadl;M00062000C600IC"
    ),
    (Action.SAVEPOINT, State.COMPLETED): b85decode(
        "2xwt$WW4gDoxErwVr6D;a%CWNXk{Q{Xkl(=WdsIrJ$MFiJ$M3?0XH=?F=b;hIW1viGcqkSGc`CZIbk?qEjM8"
        "}F)}$YIb>vHVJ$FUFfBDSH!U_eH(xR^GBz<WF*YzTG&wOhFf=tTaA9(Bb!Bt_25>!j25>!j0+azXG%{sjF<~"
        "|>HZnLdEi`5}Vl6m0VKOZ<G%+@1GiGCCFkxjaFkdk(H8eLZHaIw6GB7eWF)=YVFfcSZF*h(YH7;;ra&dKKbN"
        "~PV0s"
    ),
    (Action.RESTORE, State.REQUESTED): b85decode(
        "1R^ppGBz<WF*YzTG&wOjF*i31V{dJ3X>=koFfukVF)=nUFf=(aI59IZ3}bI?ZE17>00aUeGB7eWF)=YVFfcS"
        "ZF*h(YH2"
    ),
    (Action.RESTORE, State.COMPLETED): b85decode(
        "A~G;CHZd_VHZU+WIWsXaHZ%MY1R^ppGBz<WF*YzTG&wOjF*i3NGB7eWF)=YVFfcSZF*q?ZF#rT2GB7eWF)=Y"
        "VFfcSZF*z|eHv$48GB7eWF)=YVFfcSZGchqaGUx&X0wOXnGBz<WF*YzTG&wOjF*i2=1O{+Dcm{Aicml2gFLW"
        "<+VRmI?FK|70FE=$bF=b;hIW1viGcqkSGc`CZIbk?qEjM8}F)}$YIb>vHVJ$FUFfBDWF)cSTHD59?GBz<WF*"
        "YzTG&wOjF*i3ZaA9(Bb!Bt_00IC400wY9c?NJjc>=BhFLW<+VRmI?FK|71FElhVWnnR4HZ3+XI590WW;S9iI"
        "5=T4Ei*JRHf1wrV`MO4Wi2pYF)cMXF)cSTHeWI@GBz<WF*YzTG&wOjF*i3ZaA9(Bb!Bt_00IC4000020wOXn"
        "GBz<WF*YzTG&wOjF*i31V{dJ3X><SpA~G;CHZd_VHZU+WIWagfGcf`JA~G;CHZd_VHZU+WIWsXgG&F<*1Og&"
        "5FfukVF)=nUFf=(aI59IZ00ahbJ$MFiJ$M4H0WWkfb76L6WG`?%crQ0KG%;mkF*z+^WHT}?G&40gEjeL0VJ$"
        "adI59FgFgavoWMM5ZUob5-HZ(0aFg9N@FfukVF)=nUFf=(aI59IZE^uLTadl;M000620ssbZJ$VLjJ$VAI0W"
        "Wkfb76L6WG`?%c`r0HGG$>gVKyx`GB`0UG-ftpEjTz~GA%PSF*ap0W@BV9VP!2aUokB;HZ(0aFgIT^FfukVF"
        ")=nUFf=(aI59IZE^uLTadl;M000620ssI20s<m3FfukVF)=nUFf=(aI59IZ3}bI?ZE17>000021R^ppGBz<W"
        "F*YzTG&wOjF*i31V{dJ3X>=koFfukVF)=nUFf=(aI59IZ3}bI?ZE17>"
    ),
    (Action.LOG_COMPACTION, State.REQUESTED): b85decode(
        "0s;aeGB7eWF)=YVFfcSZFfcYbG6DpW0WLCQIAJ+7IWa9XW@TnAG%z+|Ejc$~Wi2u=F*G?aWHmT5F*YqQUotQ"
        "<HZd_VHZU+WIWRIcHa0G7Z)YwsUob5+FgPtWHZ_s~E;3^{VL3E8F)cJ^Wo9ijFg9W>IX7WtEiy1MG&wM2H8?"
        "XdHZ3q;GB7eWF)=YVFfcSZFf}<iGA?XyXD%^cFfBAPI4w0eG5`XU0WxDaVL3E8F)cJ^Wo9ijFg9W>IX7WtEi"
        "y1MG&wM2H8?XdHZ3q;FfB7VF)cMUGG8(<GBz<WF*YzTG&wLZHaRjbaA9(Bb!Bt{Ofq9QVL3E8F)cJ^Wo9ijF"
        "g9W>IX7WtEiy1MG&wM2H8?XdHZ3p$25>!i0ty~fPgFrnUrbL&Uq(qxMN<F(0000006-R0PgFrnUrA42O+o+w"
        "00000001CVPgFrnUrA42Qbj>TUrj;)000000000eR8LevOkYe-M_)!sOhr>)Q%PDy0000008pMlB2-UQK}=s"
        "sPhVG3NmNB&O+o+w000000000000IC21Oftr0dI0=E@5zCV`ybAXmw<1E_7jHY-KKCV{~b6ZZ2bQZE#^@bS_"
        "M9XG3poaA9L~X>V>tcx7XCbZKvHNM&qrWpV-l00IC30ss"
    ),
    (Action.REPLACE_COMMIT, State.REQUESTED): b85decode("0w6?1Ohr^hUr<3(R7q4xPfh>=0006"),
}

MANIFEST = b"""{
  "files" : [ {
    "fileName" : "20261116004804989_20261116004810282_0.parquet",
    "fileLen" : 3069
  } ]
}"""

HISTORY = b85decode(
    "P(e~L6#x}r6=)Ujhsf^^92Eo=02Kxm2mk;diwFP!00000|6^icU|?nz1d>JuMrMYFhGqr^CKd)JmKK)if`$f"
    "07DfPh8^|Fr0000L02N>rW);KTs=Ept6$BLk6$TXu001A02mk;800030V`5-nU}hEsl12tbW`>4_W(Ec(7KR"
    "1}1{N5C#^x5L0L*dA^DqDa02Krk6cs!b^`gJA1UwZ26$AhPABzY8000000RLlSU|>kj&&|y&0RTUjf)NS;00"
    "0#L6%Z9T72B1xJRB7S6$BLq6$k(TABzY8000000RLlRU|?WoW?%*Y8JPX92mk;86#x~`fdLip4;8P~+sXtS6"
    "$BLk6$TXu001A02mk;800030?O021(?Ae*+zKHcf&=1$1d<V)>R>zR!<EXRrHD#Jpr(Zbs-m?$Zd`1yS#Lr^"
    "$ptEe5C@L@3=R<oeh8|>rJRsBaNrlPwv&)o6W2*NAlFhAujldY?Ci{b%X1tzHTCrZ$34(?GyG*#Avo*nC2-J"
    "}+`d4o9tev90UZ-Vm=Rp$1n>7SHY`}dj$_gLK#_qcYJBxQqz59H>|_!9U4m?>Y*^XQu!9Y-nV@NbZTQ0Cll`"
    "Ve4-sln3%i^6F|jBVD55@-i~u|l+_KFSTYwzov5ysGmw}mS4I@HOm3?3aoc8hl_*;(pA~G!-){NsJ_>@@g4*"
    "MR?Y!_8fwlTCQ6rvxs?HR!U6P0Z$EC%YenYIbj(&UU2s6?wXF&A#x3FFthNP>--?qJnBU_(;fEsv!eBy~<PM"
    "RusXTpiKCDj}F8u+Yl&hm*{K5a&AH*$8t#=|q`<yKEyQRgc!nXkcI|$tnVSPqgl9t`DS7QHVW}WgF{Hlj^Tv"
    "LdqU(nn`G71KYNS^ruOo1VyP}y?`}0VfNa1=MfN}C10<u<<cRl4@}dC-kLJhtA>0C(r9AIZXcJXLt8@}$K8G"
    "h0MQNoM6D|d-5~ELa2}NX<w=LyvE0=PxOCHUdYuf-1PASnpiRmyWr{;0+`rpzbn5mt{BVO7bmS((7F7uXtlo"
    "`aV9N`N+(`^<$7urL<`|*;{%t162*BMRp$rH0YZNHpcoS`$ts_S4Id0c#NuBA(2SUTx2ILNk1?*9R+793+J1"
    "xg6ePgLim7bmxG@F?SXuF==ri48pDC7iz&Ulx5yT<*vRDX1H`uh#_%I&My^WT2)2WR=|Q{K`Z&#$YJsR5E@Q"
    "I|DE%+DF7sO3!%jhwC`O`Dfz=jTO<|CnLox8eyGB~i|avQ$(gWlommIZ4VdNO^TZ&9VdGvocWrbO4R#d5%5x"
    "ceCt&2!{*aqtS4jYy1U6ug)~a10jxyR~dRR6@6AR6;U=MRm>YOCoZUFUX-+Xn3WV$m36g&zIrR3a8VA?%Q4Y"
    "^YND@pqW{#1{%ximeJFS?BA<uT$Ch&)KQAJpm#hjH#g30n?pX>8ezsk(Z^gIz?7Bwk4C=B;l#-lVD>08~ESF"
    "i_wjLH%H#WPI`ru;9>{Di+GW(R-r_4TO_9?SZnSILaQ)Zts`;^)L$IQO^=C@}aeRzH7EY)BBICG6ZIzM4%pO"
    "ZvI?cm0;q%0^cZY=cB=8zKe{O2y3-+Vqdh%)~nGp_4}h;noMd*L5l803PuBne8r>-M1e)c*!$T(=g@p#03F_"
    "YmW}hv?pde*lJeaDiwb000#L6$}+L6|eETr4Jkx1Qh@k1{DYZ03VA8000000094EVqjokW&i+dQzzF30000L"
    "1QiGsFcsaC$IS{n6#^9m001A02mk;800030V`N}p004Qo_?ZL%000#L6$BM56{^ssU>p?$6$BLs6$k(TABzY"
    "8000000RLlP1^`7v(AWY1000>g0vQ+)GB7eWF)=YVFfcSYFf=(hIT;ucGB7eWF)=YVFfcSYF)%VXG8F<D761"
    "Sl5ds+)5i&3`HZd_VHZU+WI599VFgO_)5i&3`HZd_VHZU+WI59IfI5ial85RHl84&^*7zSf+ZEb0E85jm*Z*"
    "6U9bQJ;_761Sl5dj$(02vqn6#^L+1OOQk0vQ+t0RR9185jfs0000L0vQ$n02v$>2o;tA761SM85|a#0Tq-17"
    "61SM85|ar0~KTz0000P92WQk6{HXr0000P92T4u6=D_u000>r7St6LSQY>P02Klmd`L5Ia%V1KaA9L;WiDuS"
    "WN9v8c5-hnZEs{{Y%WM|Z)9m@OjAu%X>Da}X>MgnZgX^DZgdq402K@+0vHQvZgX^DZgf;>ZDl0@OdJ3J02K@"
    "+0vHZsZ*6dFWprt8Zd7S)WhDSi8~^|S6$~W;7zSZubZKvHB>+qu0000L3?%{>2yJC_VPs)+VE`2jB?1@(aBN"
    "|202Kly02l{$WpZ<AZ*Bk<1Q{F|Y$gaC6$}|Q00syd7z=4`b97;DbW~|=WfcS#1Qw0~7M1}f2s}0bC=oI+GB"
    "z<WF*YzTG&nIZGB`3A5i&3`HZd_VHZU+WI50FhI5_|r92Ec+02KlN02cBX6&4n(78POuCY}Kt6$}|Q00syd7"
    "!G4^ZE$R5bZKvHRB3Hx6$BOp7LEZHlmRB50X#MUC=oI+GBz<WF*YzTG&nIcH#jvI5i&3`HZd_VHZU+WI599V"
    "FgO4i92Ec+02KlN02YWD6&Mzd7ZqXvCX@pl6$}|Q1O^Bh7zSZubZKvH6$BOp7IqfK0Vb3KCb9w?7zSf+ZEb0"
    "E7zSf+ZEb0E762#)V{dJ3X>=F{V{dJ3X><S?EENP51Qh}R6#x|k6#@VN7N8jw78dXq6*d4S_yZgj3>h^51_&"
    "7#2yJC_VPs)+VHE@x1QvvX0T!eXCinw902v$=02Kfg0ssIOwiy)|04AIi92E>1H2?+(85jg`Y+-H{1QrAqIu"
    ">FkoD@7Z1OOQv6#x|g6#@VN7S0(J78a%$6&?U4)D;{R0vRO)2pJd$c4cyNX>V>71QrAqUKXwaCe#%s{uCS-1"
    "OWg502l-T0000M04M|j0000O1OWg5000>*6$BLo6#@Vi02Krk0ssIO<QWwf7Q`48E&vv;h5;4?CI}X!78C#g"
    "87vqRaA9(Bb!BueVRmwFE^}jOWo=;?uLOG{ba`-PB03^+Wn*u0WFjmgZeeX@B03^SZ*OF2WlU2|RB3HxY-w&"
    "~Np5p=VQzFHEFx}UZDn(CVPj<?IwEg!XD(rIVPj}zE@*XRX)a-Qa&IneZ)9a`A}k_iX=Q9=b0Ruhdm?UOZDk"
    "@lB57`ObYX6ERB3HxA}k_wd2nSSI$I)cb!==REPEn!d2nSSIwEs)a%pa7A}k_dc5-hnYGHO^E^~BpX>MmCIw"
    "Dhaa%pa7B7I#fB4lM|VRdYDB06q$Y;1ijdm?UOZDk@lB4clDaBO9CX>V>+X>Da9EFyGyaAhJoTOw|CY-}Pdd"
    "m?msaAhJoB6D<dX>MmCEFxica&InbVRm6Ib98cPZf7DoB2#p7X>MmCeO)XfWMyVyb!>DZI&O7rY<(<yB5q-A"
    "Wg<EvVPkY@Z*C$iB6N9hWg<FTB5rkTY$7asB6N9hWg<Evb98cPZf7DaB4KuNZ!T(Kc401abaH8KXCgWxQ*?4"
    "^Zf7EWT`VGGWoBV@Y;+<zZgp&IeJpz-ZeeX@B03^%WprU=VRT_4EFyGyaAhJoTOw|CY-}PdB4T-TWpg53EFx"
    "rOW?^+~bRs%#b!=>XEPEnuVQpn1IwEjvVQwNUB6N9hWg<FTB5rkTY$7ZoVtI6Bb0S?VB4lM|VRdYDB06q$Y;"
    "1ijdm?UOZDk@lB6ekRb7^mGA}k_wd2nSSIwEOqbRsMwWMyVyb!>DZIx&4+eE=8{cXDZTWpXZUZ)9a`E^c9MW"
    "f%luc5-h37)o$qa&dKKbS-UiAa-SPb7^mGATcg6GcGY8C}MSKY-Av0Vl**0GchnZWHn+pGc;vmH90ddWH>i4"
    "V`O1vF*Y$}G%z@1WMW|{8EhN?02}}S8~^|u000~S02}}S0C)ue08l|vF#"
)
"""Two commits in the archived timeline."""

FINGERPRINTS = {
    "CleanMetadata": "41f41ba914b08b2f4277332ab21e4f5a",
    "CleanerPlan": "a37ac98202b5528d13cb6a235ff55064",
    "CommitMetadata": "138d2a7342c160e054cfda09786b70b3",
    "CompactionPlan": "0d5f193f22ab828306adceaba50f4ba0",
    "IndexCommitMetadata": "f24aabdaa6d6e97a2d4a795c0da97a4a",
    "IndexPlan": "e49ee6c7b70c52508e497f6fa5c27188",
    "LSMTimelineInstant": "0c65bdc4437160c8a1a765d12037b61d",
    "ReplaceCommitMetadata": "db733c7aa73f03f6918ceaa77ac3a06e",
    "RequestedReplaceMetadata": "2b07d21bbc5d5bba8e18b7984223e7c4",
    "RestoreMetadata": "db536b57da3f7cf9642115fedeca53db",
    "RestorePlan": "1a1624a7f29fa18962925cefd0fe6513",
    "RollbackMetadata": "82c7840ece2f8b3e113c5021c575b0fe",
    "RollbackPlan": "e7944f5cb555e532cc53c065a1aa14a0",
    "SavepointMetadata": "465fe1cf2c6d1f85f9333d2baecff005",
}
"""SHA-256, cut to half, of the schemas in the classes of Apache Hudi 1.2.0, without `doc`."""
