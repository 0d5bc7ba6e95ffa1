"""Runs a widget in a page without a kernel: an exported page, or a trusted saved notebook."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

from mini_vllm_labs.pictures.picture import read_asset

PLAYER = "".join(map(read_asset, ("controls.js", "motion.js", "following.js", "player.js")))
WITH_LINES = read_asset("lines.js") + PLAYER
# The widget replaces the still image when the image scrolls into view. In an open notebook, the still image first waits
# two seconds for the live widget to appear and hide it.
START = (
    "((still,data)=>new IntersectionObserver((seen,watch)=>{if(!seen.some(one=>one.isIntersecting))return;"
    "watch.disconnect();setTimeout(async()=>{if(!still.offsetParent)return;"
    "const packed=new Blob([Uint8Array.from(atob(data),one=>one.charCodeAt(0))]);"
    "const stream=packed.stream().pipeThrough(new DecompressionStream('gzip'));"
    "const{player,css,state}=await new Response(stream).json();"
    "const all=window.miniVllmPlayers??={};"
    "const module=await(all[player]??=import(URL.createObjectURL(new Blob([player],{type:'text/javascript'}))));"
    "module.alone(still,state,css)},document.querySelector('.jp-NotebookPanel')?2000:0)},"
    "{rootMargin:'600px'}).observe(still))(document.currentScript.parentNode,'%s')"
)


def alone(state: Mapping[str, Any], front_end: str = PLAYER, css: str = "controls.css") -> str:
    """Return a script that replaces the still image next to it with a widget.

    `state` contains the widget's traits, `front_end` is its JavaScript (by default the player's), and `css` names its
    style files. All of this is compressed: the script for a film with the player is 20 to 60 kB.
    """
    style = "".join(map(read_asset, css.split()))
    packed = {"player": front_end + read_asset("alone.js"), "css": style, "state": dict(state)}
    # Without a timestamp, an unchanged film is saved as exactly the same bytes.
    data = gzip.compress(json.dumps(packed, separators=(",", ":")).encode(), mtime=0)
    return f"<script>{START % base64.b64encode(data).decode()}</script>"
